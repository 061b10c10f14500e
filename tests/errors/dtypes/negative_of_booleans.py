import fgrad.numpy as fnp

-fnp.array([True, False])
