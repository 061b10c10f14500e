import fgrad
import fgrad.numpy as fnp

kept = []


@fgrad.jit
def f(x):
    r = fgrad.new_ref(x)
    kept.append(r)
    return r[...]


f(fnp.zeros(3))
kept[0][...]
