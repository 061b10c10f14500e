import fgrad.numpy as fnp

fnp.floor(fnp.array(1j))
