import fgrad.numpy as fnp

fnp.arange(3)[5]
