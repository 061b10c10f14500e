import fgrad
import fgrad.numpy as fnp

r = fgrad.new_ref(fnp.zeros(3, dtype="int32"))
r[...] = 1j
