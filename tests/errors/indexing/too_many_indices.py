import fgrad.numpy as fnp

fnp.ones((2, 3))[0, 1, 2]
