import fgrad
import fgrad.numpy as fnp

fgrad.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(fnp.ones(3))
