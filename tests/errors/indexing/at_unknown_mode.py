import fgrad.numpy as fnp

fnp.zeros(3).at[0].set(1.0, mode="clamp")
