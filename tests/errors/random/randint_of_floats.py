from fgrad import random

random.randint(random.key(0), (3,), 0, 10, dtype="float32")
