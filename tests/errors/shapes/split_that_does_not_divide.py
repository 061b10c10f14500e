import fgrad.numpy as fnp

fnp.split(fnp.arange(10), 3)
