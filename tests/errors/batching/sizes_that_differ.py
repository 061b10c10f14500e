import fgrad
import fgrad.numpy as fnp


def predict(params, x):
    return x @ params["w"]


fgrad.vmap(predict)({"w": fnp.ones((4, 3))}, fnp.ones((8, 4)))
