import fgrad.numpy as fnp

fnp.zeros(3, dtype=[("x", "f4")])
