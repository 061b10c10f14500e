import fgrad.numpy as fnp

fnp.full(3, 300, dtype="int8")
