import fgrad.numpy as fnp
from fgrad import lax

lax.scan(lambda c, x: c + x, 0.0, fnp.ones(5))
