import fgrad.numpy as fnp

fnp.concatenate([fnp.ones((2, 3)), fnp.ones(3)])
