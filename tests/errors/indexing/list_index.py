import fgrad.numpy as fnp

fnp.arange(10)[[1, "2"]]
