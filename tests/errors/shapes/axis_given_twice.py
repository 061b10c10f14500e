import fgrad.numpy as fnp

fnp.sum(fnp.ones((2, 3)), axis=(0, -2))
