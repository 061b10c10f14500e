import fgrad.numpy as fnp

fnp.arange(10)[fnp.array([1.0, 2.0])]
