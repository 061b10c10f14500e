import fgrad.numpy as fnp

n = 10 / 2
fnp.zeros((n, 2))
