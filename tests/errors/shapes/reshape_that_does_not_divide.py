import fgrad.numpy as fnp

fnp.arange(10).reshape(-1, 3)
