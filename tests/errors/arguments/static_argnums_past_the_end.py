import fgrad

fgrad.jit(lambda x, n: x * n, static_argnums=2)(1.0, 3)
