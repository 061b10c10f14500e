import fgrad
import fgrad.numpy as fnp

fgrad.grad(lambda w: w * 2)(fnp.ones(3))
