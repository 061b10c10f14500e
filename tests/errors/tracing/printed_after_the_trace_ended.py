import fgrad

seen = []


@fgrad.jit
def f(x):
    seen.append(x)
    return x


f(1.0)
float(seen[0])
