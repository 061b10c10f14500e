import fgrad
import fgrad.numpy as fnp
from fgrad import debug


@fgrad.jit
def inverse(x):
    debug.check((x != 0).all(), "x must not be zero, got {x}", x=x)
    return 1 / x


inverse(fnp.array([1.0, 0.0])).block_until_ready()
