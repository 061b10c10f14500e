import fgrad

fgrad.jit(lambda x: x, donate_argnums=1)(1.0)
