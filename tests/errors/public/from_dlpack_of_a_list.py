import fgrad.numpy as fnp

fnp.from_dlpack([1, 2, 3])
