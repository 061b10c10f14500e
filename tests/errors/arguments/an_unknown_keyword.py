import fgrad


@fgrad.jit
def f(x, *, scale=1.0):
    return x * scale


f(1.0, scales=2.0)
