from fgrad import lax

lax.fori_loop(0, 3.5, lambda i, x: x + 1, 0.0)
