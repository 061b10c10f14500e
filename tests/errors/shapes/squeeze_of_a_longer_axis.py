import fgrad.numpy as fnp

fnp.squeeze(fnp.ones((2, 3)), axis=0)
