import fgrad.numpy as fnp

dot = fnp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")
dot(fnp.ones((5, 3)), fnp.ones((5, 4)))
