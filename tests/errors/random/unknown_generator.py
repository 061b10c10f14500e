from fgrad import random

random.key(0, impl="philox")
