import fgrad
import fgrad.numpy as fnp
from fgrad import lax


@fgrad.jit
def window(x, i, n):
    return lax.dynamic_slice(x, (i,), (n,))


window(fnp.arange(10.0), 2, 3)
