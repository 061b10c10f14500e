import fgrad.numpy as fnp

fnp.zeros(3).at[3].add(1.0)
