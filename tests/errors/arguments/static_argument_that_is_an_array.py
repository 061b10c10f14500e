import fgrad
import fgrad.numpy as fnp


def scale(x, factors):
    return x * factors


fgrad.jit(scale, static_argnames="factors")(fnp.ones(2), factors=fnp.ones(2))
