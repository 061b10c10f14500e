import fgrad.numpy as fnp
from fgrad import lax


def step(total, x):
    if x > 2:
        total = total + x
    return total, None


lax.scan(step, 0.0, fnp.arange(5.0))
