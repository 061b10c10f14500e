import fgrad.numpy as fnp
from fgrad import lax

lax.scan(fnp.zeros(()), lambda c, x: (c + x, None), fnp.ones(5))
