import fgrad.numpy as fnp

images = fnp.ones((10, 28, 28))
images.reshape(10, 768)
