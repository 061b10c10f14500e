import math

import fgrad


def area(r):
    return math.pi * math.sqrt(r)


fgrad.jit(fgrad.grad(area))(2.0)
