import fgrad.numpy as fnp
from fgrad import lax

x = fnp.arange(3.0)
lax.cond(x > 1, lambda x: x, lambda x: -x, x)
