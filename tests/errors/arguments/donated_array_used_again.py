import fgrad
import fgrad.numpy as fnp

step = fgrad.jit(lambda w: w * 0.9, donate_argnums=0)
w = fnp.ones(1000)
new = step(w)
print(w + 1)
