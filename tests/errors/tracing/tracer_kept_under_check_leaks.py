import fgrad
from fgrad import config

seen = []


@fgrad.jit
def f(x):
    seen.append(x * 2)
    return x


with config.override(check="leaks"):
    f(1.0)
