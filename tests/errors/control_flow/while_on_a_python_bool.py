from fgrad import lax

lax.while_loop(True, lambda v: v, 0.0)
