import fgrad.numpy as fnp

x = fnp.arange(3.0)
fnp.where(x > 0, x)
