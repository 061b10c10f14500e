import fgrad
from fgrad import lax

r = fgrad.new_ref(0.0)
lax.scan(lambda c, x: (c, x), r, None, length=3)
