import fgrad
import fgrad.numpy as fnp

fgrad.jit(fnp.unique)(fnp.array([1, 2, 1]))
