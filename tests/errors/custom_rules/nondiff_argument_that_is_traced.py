from functools import partial

import fgrad


@partial(fgrad.custom_vjp, nondiff_argnums=(1,))
def power(x, n):
    return x**n


power.defvjp(lambda x, n: (x**n, x), lambda n, x, g: (g * n * x ** (n - 1),))
fgrad.grad(lambda n: power(2.0, n))(3.0)
