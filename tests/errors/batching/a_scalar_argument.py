import fgrad
import fgrad.numpy as fnp

fgrad.vmap(lambda x, k: x * k)(fnp.ones(3), 2.0)
