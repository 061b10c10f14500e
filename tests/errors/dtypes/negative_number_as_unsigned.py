import fgrad.numpy as fnp

fnp.array(-1, dtype="uint8")
