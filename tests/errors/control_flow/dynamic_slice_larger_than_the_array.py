import fgrad.numpy as fnp
from fgrad import lax

lax.dynamic_slice(fnp.ones(4), (0,), (5,))
