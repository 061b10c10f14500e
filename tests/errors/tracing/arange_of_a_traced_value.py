import fgrad
import fgrad.numpy as fnp


@fgrad.jit
def triangle(n):
    return fnp.arange(n).sum()


triangle(4)
