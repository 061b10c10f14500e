import fgrad.numpy as fnp
from fgrad import image

image.resize(fnp.ones((4, 4, 3)), (8, 8), "linear")
