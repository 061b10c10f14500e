import fgrad.numpy as fnp

fnp.einsum("ij->ji", fnp.ones((2, 3)), fnp.ones((2, 3)))
