import fgrad.numpy as fnp

fnp.linalg.inv(fnp.ones(3))
