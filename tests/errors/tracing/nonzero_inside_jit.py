import fgrad
import fgrad.numpy as fnp


@fgrad.jit
def where_positive(x):
    return fnp.nonzero(x > 0)


where_positive(fnp.arange(3.0))
