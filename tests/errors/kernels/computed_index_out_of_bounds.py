import fgrad.numpy as fnp
from fgrad import config, kernel_call
from fgrad.kernels import program_id


def shift(x, out):
    i = program_id(0)
    out[i] = x[i + 1]


with config.override(check="oob"):
    kernel_call(shift, ((4,), "float32"), grid=(4,))(fnp.ones(4)).block_until_ready()
