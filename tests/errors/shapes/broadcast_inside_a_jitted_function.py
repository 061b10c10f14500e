import fgrad
import fgrad.numpy as fnp


def layer(x, w, b):
    return fnp.tanh(x @ w + b)


@fgrad.jit
def model(params, x):
    return layer(x, params["w"], params["b"])


model({"w": fnp.ones((4, 3)), "b": fnp.zeros(4)}, fnp.ones((2, 4)))
