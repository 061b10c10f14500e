import fgrad.numpy as fnp

q = fnp.ones((2, 5, 8))
k = fnp.ones((2, 5, 4))
fnp.einsum("bqd,bkd->bqk", q, k)
