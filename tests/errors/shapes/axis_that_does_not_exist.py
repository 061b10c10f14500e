import fgrad.numpy as fnp

fnp.ones((2, 3)).mean(axis=2)
