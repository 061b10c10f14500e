import numpy as np

import fgrad
import fgrad.numpy as fnp


@fgrad.jit
def loss(x):
    return np.asarray(x).sum()


loss(fnp.ones(3))
