import fgrad.numpy as fnp

fnp.arange(1, 4) ** -1
