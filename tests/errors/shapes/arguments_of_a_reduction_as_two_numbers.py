import fgrad.numpy as fnp

fnp.maximum(1.0)
