import fgrad.numpy as fnp
from fgrad import lax

lax.conv_general_dilated(fnp.ones((1, 3, 8, 8)), fnp.ones((16, 4, 3, 3)), (1, 1), "SAME")
