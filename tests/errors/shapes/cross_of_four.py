import fgrad.numpy as fnp

fnp.cross(fnp.ones(4), fnp.ones(4))
