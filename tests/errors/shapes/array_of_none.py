import fgrad.numpy as fnp

fnp.array([1.0, None])
