import fgrad.numpy as fnp

fnp.argmax(fnp.zeros(0))
