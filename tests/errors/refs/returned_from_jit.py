import fgrad
import fgrad.numpy as fnp


@fgrad.jit
def make():
    return fgrad.new_ref(fnp.zeros(3))


make()
