import fgrad.numpy as fnp
from fgrad import lax


def step(h, x):
    return fnp.concatenate([h, x[None]]), h.sum()


lax.scan(step, fnp.zeros(1), fnp.ones(5))
