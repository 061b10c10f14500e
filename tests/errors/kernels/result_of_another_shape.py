import fgrad.numpy as fnp
from fgrad import kernel_call


def add(x, out):
    out[...] = x[:2]


kernel_call(add, ((3,), "float32"))(fnp.ones(3))
