import fgrad

fgrad.jit(3.0)
