import fgrad.numpy as fnp

fnp.averge(fnp.ones(3))
