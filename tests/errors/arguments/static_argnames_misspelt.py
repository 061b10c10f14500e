import fgrad


def f(x, axis):
    return x.sum(axis)


fgrad.jit(f, static_argnames="axes")
