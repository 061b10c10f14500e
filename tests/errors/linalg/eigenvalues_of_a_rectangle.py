import fgrad.numpy as fnp

fnp.linalg.eigh(fnp.ones((2, 3)))
