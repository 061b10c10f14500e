import fgrad.numpy as fnp

x = fnp.ones((32, 784))
w = fnp.ones((10, 784))
x @ w
