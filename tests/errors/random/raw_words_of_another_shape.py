import fgrad.numpy as fnp
from fgrad import random

random.normal(fnp.zeros(3, dtype="uint32"), (3,))
