import fgrad.numpy as fnp

fnp.array(2**70)
