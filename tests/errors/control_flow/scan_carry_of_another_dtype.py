import fgrad.numpy as fnp
from fgrad import lax


def step(state, x):
    return {"count": state["count"] + 1, "sum": fnp.sum(x, dtype="int32")}, None


lax.scan(step, {"count": 0, "sum": fnp.zeros(())}, fnp.ones((5, 3)))
