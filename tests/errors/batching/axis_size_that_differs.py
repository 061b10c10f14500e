import fgrad
import fgrad.numpy as fnp

fgrad.vmap(lambda x: x, axis_size=4)(fnp.ones(3))
