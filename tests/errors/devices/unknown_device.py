import fgrad
import fgrad.numpy as fnp

fgrad.device_put(fnp.ones(3), "TPU")
