import fgrad
import fgrad.numpy as fnp

r = fgrad.new_ref(fnp.zeros(3))
x = fgrad.freeze(r)
r[0]
