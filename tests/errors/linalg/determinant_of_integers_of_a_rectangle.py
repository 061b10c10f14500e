import fgrad.numpy as fnp

fnp.linalg.det(fnp.ones((2, 3), dtype="int32"))
