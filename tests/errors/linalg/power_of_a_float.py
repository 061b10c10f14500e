import fgrad.numpy as fnp

fnp.linalg.matrix_power(fnp.eye(2), 0.5)
