import fgrad
import fgrad.numpy as fnp


class Layer:
    def __init__(self, w):
        self.w = w


@fgrad.jit
def apply(params, x):
    return x @ params["layers"][0].w


apply({"layers": [Layer(fnp.ones((3, 2)))]}, fnp.ones(3))
