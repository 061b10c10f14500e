import fgrad
import fgrad.numpy as fnp

y, pull = fgrad.vjp(lambda x: (x, x), fnp.ones(3))
pull(fnp.ones(3))
