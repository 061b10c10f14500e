import fgrad.numpy as fnp

a, b = fnp.arange(3)
