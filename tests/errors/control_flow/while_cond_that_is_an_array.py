import fgrad.numpy as fnp
from fgrad import lax

lax.while_loop(lambda v: v < 3.0, lambda v: v + 1, fnp.zeros(2))
