import fgrad


def power(x, n):
    y = 1.0
    for _ in range(n):
        y = y * x
    return y


fgrad.jit(power)(2.0, 3)
