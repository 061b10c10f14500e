import fgrad.numpy as fnp
from fgrad import lax

x, w = fnp.ones((1, 8, 8, 3)), fnp.ones((3, 3, 3, 16))
lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWOI", "NHCC"))
