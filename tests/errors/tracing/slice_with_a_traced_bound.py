import fgrad
import fgrad.numpy as fnp


@fgrad.jit
def head(x, n):
    return x[:n]


head(fnp.arange(5.0), 2)
