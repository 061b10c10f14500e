import fgrad

fgrad.grad(lambda x, y: x * y, argnums=1)(1.0, y=2.0)
