import fgrad.numpy as fnp
from fgrad import lax

lax.cond(True, fnp.ones(3), fnp.zeros(3))
