import fgrad

fgrad.grad(lambda x: x * x, has_aux=True)(1.0)
