import fgrad.numpy as fnp

fnp.zeros(3).at[0] + 1.0
