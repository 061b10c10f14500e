import numpy as np

from fgrad import random

random.uniform(np.random.default_rng(0), (3,))
