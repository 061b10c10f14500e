import fgrad
import fgrad.numpy as fnp

fgrad.grad(lambda w: fnp.argmax(w))(fnp.ones(3))
