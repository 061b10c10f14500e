import fgrad


@fgrad.jit
def f(x, y):
    return x + y


f(1.0)
