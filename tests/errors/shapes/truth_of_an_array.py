import fgrad.numpy as fnp

x = fnp.arange(3)
if x == 1:
    print("one")
