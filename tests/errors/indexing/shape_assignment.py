import fgrad.numpy as fnp

x = fnp.zeros(6)
x.shape = (2, 3)
