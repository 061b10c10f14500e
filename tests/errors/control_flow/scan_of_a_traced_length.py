import fgrad
from fgrad import lax


@fgrad.jit
def power(x, n):
    return lax.scan(lambda c, _: (c * x, None), 1.0, None, length=n)[0]


power(2.0, 3)
