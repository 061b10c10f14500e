import fgrad.numpy as fnp
from fgrad import lax

lax.scan(lambda c, x: (c, None), 0.0, {"x": fnp.ones(5), "y": fnp.ones(4)})
