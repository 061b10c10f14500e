import fgrad

fgrad.grad(lambda x: x, argnums=1)(1.0)
