import fgrad.numpy as fnp
from fgrad import kernel_call


def double(x):
    return x[...] * 2


kernel_call(double, ((3,), "float32"))(fnp.ones(3))
