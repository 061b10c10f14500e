import fgrad.numpy as fnp
from fgrad import ops

ops.segment_sum(fnp.ones(4), fnp.array([0, 1, 1]), num_segments=2)
