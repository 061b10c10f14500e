import fgrad
import fgrad.numpy as fnp


def loss(w):
    return (w**2).sum()


fgrad.grad(loss(fnp.ones(3)))
