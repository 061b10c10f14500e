import fgrad
from fgrad import lax


def loss(x):
    return lax.while_loop(lambda v: v < 100.0, lambda v: v * x, x)


fgrad.grad(loss)(2.0)
