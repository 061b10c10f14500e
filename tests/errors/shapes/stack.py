import fgrad.numpy as fnp

fnp.stack([fnp.ones(3), fnp.ones(4)])
