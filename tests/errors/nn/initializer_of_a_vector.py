from fgrad import nn, random

nn.initializers.glorot_normal()(random.key(0), (3,))
