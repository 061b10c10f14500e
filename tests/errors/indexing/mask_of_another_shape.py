import fgrad.numpy as fnp

x = fnp.arange(6.0).reshape(2, 3)
x[fnp.array([True, False, True])]
