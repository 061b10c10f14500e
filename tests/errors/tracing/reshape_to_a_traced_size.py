import fgrad
import fgrad.numpy as fnp


@fgrad.jit
def split(x, n):
    return x.reshape(n, -1)


split(fnp.arange(6.0), 2)
