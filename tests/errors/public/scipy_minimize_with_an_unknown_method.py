import fgrad.numpy as fnp
from fgrad.scipy import optimize

optimize.minimize(lambda x: (x**2).sum(), fnp.ones(2), method="simplex")
