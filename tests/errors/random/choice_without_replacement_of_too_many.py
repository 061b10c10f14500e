import fgrad.numpy as fnp
from fgrad import random

random.choice(random.key(0), fnp.arange(3), (5,), replace=False)
