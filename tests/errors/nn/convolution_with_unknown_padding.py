import fgrad.numpy as fnp
from fgrad import lax

lax.conv(fnp.ones((1, 3, 8, 8)), fnp.ones((16, 3, 3, 3)), (1, 1), "FULL")
