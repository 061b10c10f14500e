import fgrad.numpy as fnp
from fgrad import lax


def step(carry, x):
    h, c = carry
    return h + x, c


lax.scan(step, (fnp.zeros(()), fnp.zeros(())), fnp.ones(5))
