import fgrad
from fgrad import lax

a = fgrad.new_ref(0.0)
b = fgrad.new_ref(1.0)
lax.cond(True, lambda: a, lambda: b)
