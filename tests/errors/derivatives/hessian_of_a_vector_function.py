import fgrad
import fgrad.numpy as fnp

fgrad.grad(fgrad.grad(lambda x: (x**3).sum()))(fnp.ones(2))
