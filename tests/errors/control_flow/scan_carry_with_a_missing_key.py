import fgrad.numpy as fnp
from fgrad import lax


def step(carry, x):
    return {"h": carry["h"] + x}, None


lax.scan(step, {"h": fnp.zeros(()), "c": fnp.zeros(())}, fnp.ones(5))
