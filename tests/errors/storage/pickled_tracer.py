import pickle

import fgrad

fgrad.jit(lambda x: pickle.dumps(x))(1.0)
