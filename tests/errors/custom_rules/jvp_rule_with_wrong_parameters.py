import fgrad


@fgrad.custom_jvp
def double(x):
    return 2 * x


@double.defjvp
def double_jvp(x, dx, more):
    return 2 * x, 2 * dx


fgrad.jvp(double, (1.0,), (1.0,))
