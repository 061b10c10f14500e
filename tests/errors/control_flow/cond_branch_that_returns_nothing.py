import fgrad.numpy as fnp
from fgrad import lax


def show(x):
    print(x)


lax.cond(True, show, lambda x: x, fnp.ones(3))
