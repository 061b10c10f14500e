import fgrad.numpy as fnp

x = fnp.zeros(3)
del x[0]
