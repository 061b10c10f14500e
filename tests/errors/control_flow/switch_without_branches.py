from fgrad import lax

lax.switch(0, [], 1.0)
