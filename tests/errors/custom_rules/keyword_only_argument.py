import fgrad


@fgrad.custom_jvp
def scale(x, *, by):
    return x * by


scale.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
fgrad.grad(lambda x: scale(x, by=2.0))(1.0)
