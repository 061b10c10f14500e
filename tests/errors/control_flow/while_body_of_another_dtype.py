import fgrad.numpy as fnp
from fgrad import lax

lax.while_loop(lambda v: v[0] < 3, lambda v: (v[0] + 0.5, v[1]), (fnp.array(0, dtype="int32"), 1.0))
