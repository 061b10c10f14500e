import fgrad.numpy as fnp

fnp.array(["a", "b"])
