import fgrad.numpy as fnp
from fgrad import random

random.choice(random.key(0), 3, (5,), p=fnp.array([0.5, 0.5]))
