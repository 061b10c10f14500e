"""Random numbers from explicit keys: keys go in, numbers come out, and the same key always gives the same numbers."""

from fgrad.random.continuous import cauchy as cauchy
from fgrad.random.continuous import double_sided_maxwell as double_sided_maxwell
from fgrad.random.continuous import exponential as exponential
from fgrad.random.continuous import gumbel as gumbel
from fgrad.random.continuous import laplace as laplace
from fgrad.random.continuous import logistic as logistic
from fgrad.random.continuous import lognormal as lognormal
from fgrad.random.continuous import maxwell as maxwell
from fgrad.random.continuous import normal as normal
from fgrad.random.continuous import pareto as pareto
from fgrad.random.continuous import rayleigh as rayleigh
from fgrad.random.continuous import triangular as triangular
from fgrad.random.continuous import truncated_normal as truncated_normal
from fgrad.random.continuous import uniform as uniform
from fgrad.random.continuous import wald as wald
from fgrad.random.continuous import weibull_min as weibull_min
from fgrad.random.discrete import bernoulli as bernoulli
from fgrad.random.discrete import categorical as categorical
from fgrad.random.discrete import choice as choice
from fgrad.random.discrete import geometric as geometric
from fgrad.random.discrete import permutation as permutation
from fgrad.random.discrete import rademacher as rademacher
from fgrad.random.discrete import randint as randint
from fgrad.random.discrete import shuffle as shuffle
from fgrad.random.keys import KeyArray as KeyArray
from fgrad.random.keys import PRNGKey as PRNGKey
from fgrad.random.keys import clone as clone
from fgrad.random.keys import key as key
from fgrad.random.keys import key_data as key_data
from fgrad.random.keys import key_dtype as key_dtype
from fgrad.random.keys import key_impl as key_impl
from fgrad.random.keys import wrap_key_data as wrap_key_data
from fgrad.random.rejection import ball as ball
from fgrad.random.rejection import beta as beta
from fgrad.random.rejection import binomial as binomial
from fgrad.random.rejection import chisquare as chisquare
from fgrad.random.rejection import dirichlet as dirichlet
from fgrad.random.rejection import f as f
from fgrad.random.rejection import gamma as gamma
from fgrad.random.rejection import generalized_normal as generalized_normal
from fgrad.random.rejection import loggamma as loggamma
from fgrad.random.rejection import multinomial as multinomial
from fgrad.random.rejection import poisson as poisson
from fgrad.random.rejection import t as t
from fgrad.random.structured import multivariate_normal as multivariate_normal
from fgrad.random.structured import orthogonal as orthogonal
from fgrad.random.threefry import bits as bits
from fgrad.random.threefry import fold_in as fold_in
from fgrad.random.threefry import split as split
from fgrad.trace.frames import trim_public

__all__ = [
    "KeyArray", "PRNGKey", "ball", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy",
    "chisquare", "choice", "clone", "dirichlet", "double_sided_maxwell", "exponential", "f", "fold_in",
    "gamma", "generalized_normal", "geometric", "gumbel", "key", "key_data", "key_dtype", "key_impl", "laplace",
    "loggamma", "logistic", "lognormal", "maxwell", "multinomial", "multivariate_normal", "normal",
    "orthogonal", "pareto", "permutation", "poisson", "rademacher", "randint", "rayleigh", "shuffle", "split",
    "t", "triangular", "truncated_normal", "uniform", "wald", "weibull_min", "wrap_key_data",
]  # fmt: skip

trim_public(globals(), __all__)
