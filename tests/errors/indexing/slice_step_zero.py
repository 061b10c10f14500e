import fgrad.numpy as fnp

fnp.arange(4)[::0]
