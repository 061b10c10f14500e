import fgrad.numpy as fnp
from fgrad import lax

lax.cond(True, lambda x: {"y": x}, lambda x: {"y": x.sum()}, fnp.ones(3))
