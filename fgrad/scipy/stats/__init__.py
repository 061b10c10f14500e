"""Probability distributions and sample statistics under SciPy's names."""

from fgrad.scipy.stats import bernoulli as bernoulli
from fgrad.scipy.stats import beta as beta
from fgrad.scipy.stats import betabinom as betabinom
from fgrad.scipy.stats import binom as binom
from fgrad.scipy.stats import cauchy as cauchy
from fgrad.scipy.stats import chi2 as chi2
from fgrad.scipy.stats import dirichlet as dirichlet
from fgrad.scipy.stats import expon as expon
from fgrad.scipy.stats import gamma as gamma
from fgrad.scipy.stats import gennorm as gennorm
from fgrad.scipy.stats import geom as geom
from fgrad.scipy.stats import gumbel_l as gumbel_l
from fgrad.scipy.stats import gumbel_r as gumbel_r
from fgrad.scipy.stats import laplace as laplace
from fgrad.scipy.stats import logistic as logistic
from fgrad.scipy.stats import multinomial as multinomial
from fgrad.scipy.stats import multivariate_normal as multivariate_normal
from fgrad.scipy.stats import nbinom as nbinom
from fgrad.scipy.stats import norm as norm
from fgrad.scipy.stats import pareto as pareto
from fgrad.scipy.stats import poisson as poisson
from fgrad.scipy.stats import t as t
from fgrad.scipy.stats import truncnorm as truncnorm
from fgrad.scipy.stats import uniform as uniform
from fgrad.scipy.stats import vonmises as vonmises
from fgrad.scipy.stats import wrapcauchy as wrapcauchy
from fgrad.scipy.stats.kde import gaussian_kde as gaussian_kde
from fgrad.scipy.stats.summaries import mode as mode
from fgrad.scipy.stats.summaries import rankdata as rankdata
from fgrad.scipy.stats.summaries import sem as sem

__all__ = [
    "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma",
    "gaussian_kde", "gennorm", "geom", "gumbel_l", "gumbel_r", "laplace", "logistic", "mode",
    "multinomial", "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "rankdata", "sem",
    "t", "truncnorm", "uniform", "vonmises", "wrapcauchy",
]  # fmt: skip
