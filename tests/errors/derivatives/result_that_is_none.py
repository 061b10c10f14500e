import fgrad


def loss(w):
    w * 2


fgrad.grad(loss)(1.0)
