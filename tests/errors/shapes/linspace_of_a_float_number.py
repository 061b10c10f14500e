import fgrad.numpy as fnp

fnp.linspace(0, 1, 10.5)
