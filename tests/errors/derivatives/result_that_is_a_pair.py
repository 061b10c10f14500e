import fgrad
import fgrad.numpy as fnp


def loss(w):
    return (w**2).sum(), w.mean()


fgrad.value_and_grad(loss)(fnp.ones(3))
