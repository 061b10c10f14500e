import fgrad
from fgrad import random

fgrad.jit(lambda key, n: random.split(key, n))(random.key(0), 3)
