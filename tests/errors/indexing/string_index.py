import fgrad.numpy as fnp

params = fnp.ones(3)
params["w"]
