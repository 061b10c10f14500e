import fgrad.numpy as fnp

fnp.sum([1.0, 2.0], axis="rows")
