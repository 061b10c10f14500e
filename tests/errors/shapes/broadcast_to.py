import fgrad.numpy as fnp

fnp.broadcast_to(fnp.ones((2, 3)), (3, 2))
