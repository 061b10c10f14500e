import fgrad
import fgrad.numpy as fnp


@fgrad.jit
def positive(x):
    return x[x > 0]


positive(fnp.arange(3.0))
