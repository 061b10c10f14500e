import fgrad.numpy as fnp

fnp.linalg.norm(fnp.ones((2, 2)), ord="frobenius")
