import fgrad.numpy as fnp

fnp.array([True, False]) - fnp.array([True, True])
