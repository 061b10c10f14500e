import fgrad.numpy as fnp

fnp.linalg.cholesky(fnp.ones((3, 2)))
