import fgrad.numpy as fnp
from fgrad import random

random.gamma(random.key(0), fnp.ones(3), (4,))
