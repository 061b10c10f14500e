import fgrad

fgrad.jacfwd(lambda n: n * 2.0)(3)
