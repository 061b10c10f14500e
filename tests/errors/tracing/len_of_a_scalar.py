import fgrad


@fgrad.jit
def count(x):
    return len(x)


count(3.0)
