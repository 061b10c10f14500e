import fgrad.numpy as fnp
from fgrad import nn

q, k, v = fnp.ones((1, 4, 2, 8)), fnp.ones((1, 5, 2, 8)), fnp.ones((1, 6, 2, 8))
nn.dot_product_attention(q, k, v)
