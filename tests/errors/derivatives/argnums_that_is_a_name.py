import fgrad

fgrad.grad(lambda x, y: x * y, argnums="y")(1.0, 2.0)
