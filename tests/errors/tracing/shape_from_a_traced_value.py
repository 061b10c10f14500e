import fgrad
import fgrad.numpy as fnp


@fgrad.jit
def make(n):
    return fnp.zeros(n)


make(3)
