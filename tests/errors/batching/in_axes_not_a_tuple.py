import fgrad

fgrad.vmap(lambda x, y: x, in_axes={"x": 0})
