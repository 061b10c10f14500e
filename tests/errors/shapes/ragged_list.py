import fgrad.numpy as fnp

fnp.array([[1.0, 2.0], [3.0]])
