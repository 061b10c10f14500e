import fgrad
import fgrad.numpy as fnp
from fgrad import lax

fgrad.vmap(lambda x: lax.psum(x, "rows"), axis_name="batch")(fnp.ones(3))
