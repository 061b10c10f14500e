import fgrad
import fgrad.numpy as fnp

r = fgrad.new_ref(fnp.zeros(3))


@fgrad.jit
def f():
    return fgrad.freeze(r)


f()
