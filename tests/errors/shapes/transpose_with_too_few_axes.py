import fgrad.numpy as fnp

fnp.ones((2, 3, 4)).transpose(1, 0)
