import fgrad.numpy as fnp

fnp.einsum("ij,jk->il", fnp.ones((2, 3)), fnp.ones((3, 4)))
