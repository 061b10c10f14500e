import fgrad.numpy as fnp
from fgrad import lax

x, w = fnp.ones((1, 4, 8, 8)), fnp.ones((6, 3, 3, 3))
lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=2)
