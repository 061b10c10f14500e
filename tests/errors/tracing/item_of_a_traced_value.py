import fgrad
import fgrad.numpy as fnp


@fgrad.jit
def step(w):
    print("loss", (w**2).sum().item())
    return w * 0.9


step(fnp.ones(3))
