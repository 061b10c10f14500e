import fgrad.numpy as fnp

fnp.ones((2, 2)) @ 2.0
