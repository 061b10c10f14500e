from fgrad import lax

lax.fori_loop(0, 3, lambda x: x + 1, 0.0)
