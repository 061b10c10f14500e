from fgrad import jit


@jit
def halve(x):
    while x > 1:
        x = x / 2
    return x


halve(8.0)
