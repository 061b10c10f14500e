import fgrad.numpy as fnp

prediction = fnp.ones((8, 1))
target = fnp.ones((4, 2))
error = prediction - target
