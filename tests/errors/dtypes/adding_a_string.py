import fgrad.numpy as fnp

fnp.ones(3) + "1"
