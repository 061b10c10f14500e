import fgrad.numpy as fnp
from fgrad.scipy import linalg

linalg.solve_triangular(fnp.eye(3), fnp.ones((4, 2)))
