import fgrad.numpy as fnp
from fgrad import optim

opt = optim.adam(1e-3)
state = opt.init({"w": fnp.ones(3)})
opt.update({"w": fnp.ones(4)}, state)
