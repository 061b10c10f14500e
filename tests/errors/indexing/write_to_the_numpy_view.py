import numpy as np

import fgrad.numpy as fnp

x = np.asarray(fnp.zeros(3))
x[0] = 1.0
