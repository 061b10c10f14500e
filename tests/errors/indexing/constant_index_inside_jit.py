import fgrad
import fgrad.numpy as fnp


@fgrad.jit
def last(x):
    return x[3, 0]


last(fnp.ones((3, 2)))
