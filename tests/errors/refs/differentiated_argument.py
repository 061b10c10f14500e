import fgrad


def f(r):
    return r[...] * 2


fgrad.grad(f)(fgrad.new_ref(1.0))
