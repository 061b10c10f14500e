import fgrad.numpy as fnp

x = fnp.zeros(3)
fnp.add(x, 1.0, out=x)
