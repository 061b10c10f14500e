import fgrad


@fgrad.custom_vjp
def relu(x):
    return x * (x > 0)


def back(x, g):
    return (g if x > 0 else 0.0 * g,)


relu.defvjp(lambda x: (relu(x), x), back)
fgrad.jit(fgrad.grad(relu))(1.0)
