import fgrad
import fgrad.numpy as fnp

fgrad.vmap(lambda x: x, out_axes=2)(fnp.ones((3, 4)))
