from fgrad import random

random.normal(random.key(0), "float32", (3,))
