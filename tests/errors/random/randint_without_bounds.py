from fgrad import random

random.randint(random.key(0), (3,))
