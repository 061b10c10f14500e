import fgrad.numpy as fnp

fnp.concatenate([])
