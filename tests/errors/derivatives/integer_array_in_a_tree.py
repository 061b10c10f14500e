import fgrad
import fgrad.numpy as fnp


def loss(params):
    return params["w"].sum() * params["steps"]


fgrad.grad(loss)({"w": fnp.ones(3), "steps": fnp.array(2)})
