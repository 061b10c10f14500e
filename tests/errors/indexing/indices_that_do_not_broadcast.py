import fgrad.numpy as fnp

x = fnp.ones((4, 4))
x[fnp.array([0, 1]), fnp.array([0, 1, 2])]
