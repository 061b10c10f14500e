from fgrad import jit


@jit
def relu(x):
    if x > 0:
        return x
    return 0.0


relu(2.0)
