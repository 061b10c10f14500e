from fgrad import random

random.normal(random.key(0), (3,), dtype="int32")
