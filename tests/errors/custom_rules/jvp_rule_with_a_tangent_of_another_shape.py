import fgrad
import fgrad.numpy as fnp


@fgrad.custom_jvp
def total(x):
    return x.sum()


total.defjvp(lambda primals, tangents: (primals[0].sum(), tangents[0]))
fgrad.jvp(total, (fnp.ones(3),), (fnp.ones(3),))
