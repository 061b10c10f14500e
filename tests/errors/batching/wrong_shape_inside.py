import fgrad
import fgrad.numpy as fnp

fgrad.vmap(lambda x, w: x @ w, in_axes=(0, None))(fnp.ones((8, 4)), fnp.ones((3, 2)))
