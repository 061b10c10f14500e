import fgrad


@fgrad.jit
def f(x):
    return {"loss": x, "name": "train"}


f(1.0)
