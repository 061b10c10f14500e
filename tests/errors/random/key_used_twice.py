import fgrad.numpy as fnp
from fgrad import config, jit, random


@jit
def noisy(x, key):
    kept = random.bernoulli(key, 0.9, x.shape)
    return x * kept + random.normal(key, x.shape)


with config.override(check="keys"):
    noisy(fnp.ones(3), random.key(0))
