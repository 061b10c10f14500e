import fgrad

seen = []


@fgrad.jit
def f(x):
    y = x * 2
    seen.append(y)
    return y


f(1.0)
print(seen[0] + 1)
