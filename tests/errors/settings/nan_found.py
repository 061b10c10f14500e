import fgrad
import fgrad.numpy as fnp
from fgrad import config


@fgrad.jit
def loss(x):
    y = fnp.log(x)
    return (y * 2).sum()


with config.override(check="nan"):
    loss(fnp.array([1.0, -1.0])).block_until_ready()
