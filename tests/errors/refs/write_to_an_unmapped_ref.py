import fgrad
import fgrad.numpy as fnp

total = fgrad.new_ref(0.0)


def add(x):
    total[...] += x


fgrad.vmap(add)(fnp.ones(3))
