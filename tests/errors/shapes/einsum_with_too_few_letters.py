import fgrad.numpy as fnp

fnp.einsum("ij->i", fnp.ones((2, 3, 4)))
