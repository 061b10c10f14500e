import fgrad
import fgrad.numpy as fnp
from fgrad import nn

fgrad.jit(nn.one_hot)(fnp.array([0, 1]), 3)
