import fgrad.numpy as fnp

fnp.ones((2, 3, 4))[..., 0, ...]
