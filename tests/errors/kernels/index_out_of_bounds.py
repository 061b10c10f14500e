import fgrad.numpy as fnp
from fgrad import kernel_call


def shift(x, out):
    out[...] = x[4]


kernel_call(shift, ((), "float32"))(fnp.ones(4))
