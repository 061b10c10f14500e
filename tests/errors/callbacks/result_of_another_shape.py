import numpy as np

import fgrad
import fgrad.numpy as fnp


@fgrad.jit
def f(x):
    return fgrad.pure_callback(lambda x: np.sum(x), fgrad.ShapeDtypeStruct((3,), "float32"), x)


f(fnp.ones(3)).block_until_ready()
