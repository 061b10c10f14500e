import numpy as np

import fgrad
import fgrad.numpy as fnp


def loss(x):
    y = fgrad.pure_callback(np.sin, fgrad.ShapeDtypeStruct(x.shape, x.dtype), x)
    return y.sum()


fgrad.grad(loss)(fnp.ones(3))
