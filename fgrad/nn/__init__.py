"""Neural network functions: activations, the softmax family, attention, pooling, and `initializers`."""

from fgrad.nn import initializers as initializers
from fgrad.nn.activations import celu as celu
from fgrad.nn.activations import elu as elu
from fgrad.nn.activations import gelu as gelu
from fgrad.nn.activations import glu as glu
from fgrad.nn.activations import hard_sigmoid as hard_sigmoid
from fgrad.nn.activations import hard_silu as hard_silu
from fgrad.nn.activations import hard_swish as hard_swish
from fgrad.nn.activations import hard_tanh as hard_tanh
from fgrad.nn.activations import identity as identity
from fgrad.nn.activations import leaky_relu as leaky_relu
from fgrad.nn.activations import log1mexp as log1mexp
from fgrad.nn.activations import log_sigmoid as log_sigmoid
from fgrad.nn.activations import mish as mish
from fgrad.nn.activations import one_hot as one_hot
from fgrad.nn.activations import relu as relu
from fgrad.nn.activations import relu6 as relu6
from fgrad.nn.activations import selu as selu
from fgrad.nn.activations import sigmoid as sigmoid
from fgrad.nn.activations import silu as silu
from fgrad.nn.activations import soft_sign as soft_sign
from fgrad.nn.activations import softplus as softplus
from fgrad.nn.activations import sparse_plus as sparse_plus
from fgrad.nn.activations import sparse_sigmoid as sparse_sigmoid
from fgrad.nn.activations import squareplus as squareplus
from fgrad.nn.activations import swish as swish
from fgrad.nn.attention import dot_product_attention as dot_product_attention
from fgrad.nn.normalizations import log_softmax as log_softmax
from fgrad.nn.normalizations import logmeanexp as logmeanexp
from fgrad.nn.normalizations import logsumexp as logsumexp
from fgrad.nn.normalizations import softmax as softmax
from fgrad.nn.normalizations import standardize as standardize
from fgrad.nn.pooling import avg_pool as avg_pool
from fgrad.nn.pooling import max_pool as max_pool
from fgrad.nn.pooling import min_pool as min_pool
from fgrad.numpy import tanh as tanh
from fgrad.trace.frames import trim_public

__all__ = [
    "avg_pool", "celu", "dot_product_attention", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu",
    "hard_swish", "hard_tanh", "identity", "initializers", "leaky_relu", "log1mexp", "log_sigmoid",
    "log_softmax", "logmeanexp", "logsumexp", "max_pool", "min_pool", "mish", "one_hot", "relu", "relu6",
    "selu", "sigmoid", "silu", "soft_sign", "softmax", "softplus", "sparse_plus", "sparse_sigmoid",
    "squareplus", "standardize", "swish", "tanh",
]  # fmt: skip

trim_public(globals(), __all__)
