from fgrad import random

random.categorical(random.key(0), 1.0)
