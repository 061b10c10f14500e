import fgrad
import fgrad.numpy as fnp


@fgrad.jit
def clear(x):
    x[:2] = 0.0
    return x


clear(fnp.ones(3))
