import fgrad.numpy as fnp

fnp.dot(fnp.ones((2, 3)), fnp.ones((2, 3)))
