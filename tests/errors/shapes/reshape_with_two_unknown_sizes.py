import fgrad.numpy as fnp

fnp.arange(8).reshape(-1, 2, -1)
