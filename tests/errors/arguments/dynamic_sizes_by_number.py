import fgrad
import fgrad.numpy as fnp

fgrad.jit(fnp.sum, dynamic_sizes={0: {0: fgrad.Size("n", 1, 8)}})
