import fgrad.numpy as fnp
from fgrad import optim

optim.apply_updates({"w": fnp.ones(3), "b": fnp.ones(1)}, {"w": fnp.ones(3)})
