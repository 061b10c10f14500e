import fgrad


@fgrad.custom_vjp
def loss(params):
    return params["w"] * params["b"]


loss.defvjp(lambda p: (p["w"] * p["b"], p), lambda p, g: ({"w": g * p["b"]},))
fgrad.grad(loss)({"w": 1.0, "b": 2.0})
