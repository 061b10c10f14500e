import fgrad
import fgrad.numpy as fnp

fgrad.linear_transpose(fnp.sin, 1.0)(1.0)
