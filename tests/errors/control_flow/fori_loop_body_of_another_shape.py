import fgrad.numpy as fnp
from fgrad import lax

lax.fori_loop(0, 3, lambda i, x: fnp.stack([x, x]), fnp.zeros(2))
