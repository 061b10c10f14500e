import fgrad.numpy as fnp
from fgrad import lax

lax.dot_general(fnp.ones((2, 3, 4)), fnp.ones((5, 4, 3)), (((2,), (1,)), ((0,), (0,))))
