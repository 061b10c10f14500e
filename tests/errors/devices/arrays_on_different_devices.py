import fgrad
import fgrad.numpy as fnp

x = fgrad.device_put(fnp.ones(3), "cpu:1")
x + fnp.ones(3)
