"""Bounds hold every value a node can have."""

from hypothesis import given, settings

from fgrad.trace.reference import evaluate
from fgrad.uop import dtype as dt
from fgrad.uop.bounds import Bounds
from tests.laws.programs import Case, programs

INTEGERS = (dt.int8, dt.uint8, dt.int32, dt.int64, dt.uint64, dt.bool_)


@settings(max_examples=100)
@given(programs(max_nodes=14, dtypes=INTEGERS))
def test_bounds_hold_every_value(case: Case) -> None:
    program, arrays = case
    nodes = [u for u in program.nodes if not isinstance(u.dtype, tuple)]
    nodes = [u for u in nodes if not u.dtype.is_inexact]
    bounds = Bounds()
    env = dict(zip(program.params, arrays, strict=True))
    for u, x in zip(nodes, evaluate(nodes, env), strict=True):
        lo, hi = bounds(u)
        assert dt.int_range(u.dtype)[0] <= lo <= hi <= dt.int_range(u.dtype)[1]
        if x.size:
            assert lo <= int(x.min()) and int(x.max()) <= hi, u
