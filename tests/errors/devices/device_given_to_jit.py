import fgrad

fgrad.jit(lambda x: x, device="cpu:1")
