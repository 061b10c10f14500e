from fgrad import lax

lax.map(lambda x: x, 3.0)
