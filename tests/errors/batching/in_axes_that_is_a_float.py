import fgrad
import fgrad.numpy as fnp

fgrad.vmap(lambda x: x, in_axes=0.0)(fnp.ones(3))
