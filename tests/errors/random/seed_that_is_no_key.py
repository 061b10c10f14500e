from fgrad import random

random.normal(0, (3,))
