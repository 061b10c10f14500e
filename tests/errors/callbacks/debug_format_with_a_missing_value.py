import fgrad
from fgrad import debug


@fgrad.jit
def f(x):
    debug.print("x = {x}, y = {y}", x=x)
    return x


f(1.0)
