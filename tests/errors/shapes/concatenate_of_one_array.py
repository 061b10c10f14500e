import fgrad.numpy as fnp

fnp.concatenate(fnp.float32(1.0))
