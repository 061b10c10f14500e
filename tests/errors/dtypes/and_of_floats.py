import fgrad.numpy as fnp

x = fnp.arange(3.0)
small = x > 0.5 & x < 2.5
