import fgrad
import fgrad.numpy as fnp


def relu(x):
    return x if x > 0 else 0.0


fgrad.vmap(relu)(fnp.arange(-1.0, 2.0))
