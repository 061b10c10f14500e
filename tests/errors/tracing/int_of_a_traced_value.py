from fgrad import jit


@jit
def scale(x, n):
    return x * int(n)


scale(2.0, 3)
