import numpy as np

import fgrad.numpy as fnp

x = fnp.zeros(3)
np.add(x, 1.0, out=x)
