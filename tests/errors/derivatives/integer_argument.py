import fgrad

fgrad.grad(lambda x: x**2)(3)
