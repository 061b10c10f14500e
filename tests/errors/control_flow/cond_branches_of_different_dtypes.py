import fgrad.numpy as fnp
from fgrad import lax

lax.cond(True, lambda x: x, lambda x: fnp.zeros(3, dtype="int32"), fnp.ones(3))
