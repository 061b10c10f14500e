import fgrad.numpy as fnp

fnp.zeros((0, 3)).max(axis=0)
