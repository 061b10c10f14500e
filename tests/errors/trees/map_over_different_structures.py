import fgrad
import fgrad.numpy as fnp

params = {"w": fnp.ones(3), "b": 0.0}
grads = {"w": fnp.ones(3)}
fgrad.tree.map(lambda p, g: p - 0.1 * g, params, grads)
