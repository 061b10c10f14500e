import fgrad.numpy as fnp

for x in fnp.sum(fnp.ones(3)):
    print(x)
