import fgrad

fgrad.grad(lambda z: z * z, holomorphic=True)(1.0)
