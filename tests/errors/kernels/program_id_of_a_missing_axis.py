from fgrad import kernel_call
from fgrad.kernels import program_id


def fill(out):
    out[program_id(1)] = 1.0


kernel_call(fill, ((4,), "float32"), grid=(4,))()
