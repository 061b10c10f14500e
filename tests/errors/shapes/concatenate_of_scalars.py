import fgrad.numpy as fnp

fnp.concatenate([fnp.array(1.0), fnp.array(2.0)])
