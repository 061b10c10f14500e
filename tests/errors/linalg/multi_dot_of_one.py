import fgrad.numpy as fnp

fnp.linalg.multi_dot([fnp.eye(2)])
