import fgrad
from fgrad import random

fgrad.grad(lambda key: random.normal(key))(random.key(0))
