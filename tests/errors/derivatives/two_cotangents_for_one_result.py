import fgrad

y, pull = fgrad.vjp(lambda x, y: x * y, 1.0, 2.0)
pull(1.0, 1.0)
