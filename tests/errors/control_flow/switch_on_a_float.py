from fgrad import lax

lax.switch(1.5, [lambda x: x, lambda x: -x], 1.0)
