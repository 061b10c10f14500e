import fgrad.numpy as fnp
from fgrad import optim

opt = optim.adamw(1e-3)
params = {"w": fnp.ones(3)}
opt.update(params, opt.init(params))
