import fgrad

fgrad.pure_callback(lambda x: x, float, 1.0)
