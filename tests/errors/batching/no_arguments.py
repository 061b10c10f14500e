import fgrad

fgrad.vmap(lambda: 1.0)()
