import fgrad
import fgrad.numpy as fnp

fgrad.vmap(lambda x: {"y": x}, out_axes=None)(fnp.ones(3))
