import fgrad
import fgrad.numpy as fnp

fgrad.vmap(lambda x: x, in_axes=None)(fnp.ones(3))
