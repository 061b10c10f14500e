import fgrad.numpy as fnp
from fgrad import nn

nn.softmax(fnp.ones(3), axis=1)
