import fgrad
import fgrad.numpy as fnp

y, pull = fgrad.vjp(lambda x: {"y": x * 2}, fnp.ones(3))
pull({"y": fnp.ones(4)})
