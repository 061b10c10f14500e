import fgrad.numpy as fnp
from fgrad import optim

opt = optim.adam(1e-3)
params = {"w": fnp.ones(3)}
state = opt.init(params)
opt.update(state, params)
