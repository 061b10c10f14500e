import fgrad.numpy as fnp

fnp.arange(10)[4 / 2]
