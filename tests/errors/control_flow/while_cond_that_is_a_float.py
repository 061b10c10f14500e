import fgrad.numpy as fnp
from fgrad import lax

lax.while_loop(lambda v: 3.0 - v, lambda v: v + 1, fnp.zeros(()))
