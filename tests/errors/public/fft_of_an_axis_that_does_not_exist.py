import fgrad.numpy as fnp

fnp.fft.fft(fnp.ones(4), axis=1)
