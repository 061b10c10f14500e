import fgrad.numpy as fnp

fnp.take(fnp.arange(3), 5)
