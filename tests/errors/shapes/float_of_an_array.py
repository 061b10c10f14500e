import fgrad.numpy as fnp

float(fnp.ones(3))
