import fgrad
import fgrad.numpy as fnp

fgrad.vmap(lambda p, x: x, in_axes=(None, 2))(1.0, fnp.ones((3, 4)))
