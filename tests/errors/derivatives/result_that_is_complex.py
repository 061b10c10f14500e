import fgrad

fgrad.grad(lambda w: w * 1j)(2.0)
