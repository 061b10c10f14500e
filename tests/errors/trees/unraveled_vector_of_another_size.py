import fgrad.numpy as fnp
from fgrad.flatten_util import ravel_pytree

flat, unravel = ravel_pytree({"w": fnp.ones((2, 3)), "b": 0.0})
unravel(fnp.ones(6))
