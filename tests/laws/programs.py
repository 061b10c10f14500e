"""Random well-typed Programs, and arrays to run them on: what every law is tested with.

::

    @given(programs(max_nodes=10))
    def test_some_law(case: Case) -> None:
        program, arrays = case

Two transformed programs can be compared with a tolerance: the generator counts the bits that exact
values need, and gives rounded ones to no op that would magnify a difference in the last place
(comparisons, roundings, casts to integers, sorting). `close_to` does the comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

import fgrad.uop.infer  # noqa: F401  fills the table without which no node can be made
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, open_param, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Call, Cond, Program, Scan, While, close, gets

Case = tuple[Program, list[np.ndarray]]

COMMON = (dt.float32, dt.float64, dt.int32, dt.int64, dt.bool_)
EVERY = tuple([d for d in dt.ALL if not d.name.startswith("float8")])
_ROUNDED = 10_000  # bits of a value that is not exact
_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53, "complex64": 24,
           "complex128": 53}  # fmt: skip
SMALL = ((), (1,), (2,), (3,), (4,), (2, 3), (3, 1), (1, 2), (2, 1, 3), (3, 4), (0,), (2, 0))
# several vectors and their tails, long rows and columns, many axes
WIDE = (
    *SMALL, (17,), (40,), (130,), (5, 37), (37, 5), (1, 70), (70, 1), (16, 32), (3, 1, 33), (2, 19, 3),
    (4, 8, 16), (2, 1, 2, 1, 3, 2), (1, 2, 1, 3, 1, 2, 5), (0, 17), (17, 0, 2),
)  # fmt: skip

_SMOOTH = (Op.SIN, Op.COS, Op.TANH, Op.SIGMOID, Op.ERF, Op.ATAN, Op.ASINH)
_FUNCTIONS = (*_SMOOTH, Op.SQRT, Op.RSQRT, Op.EXP, Op.LOG, Op.LOG1P, Op.EXPM1, Op.CBRT, Op.EXP2)


class _Maker:
    """A pool of nodes that grows; `bits[u]`: the binary digits that exact values of u need."""

    def __init__(
        self,
        draw: Callable[..., Any],
        dtypes: Sequence[DType],
        differentiable: bool,
        largest: int,
    ) -> None:
        self.draw = draw
        self.dtypes = dtypes
        self.differentiable = differentiable
        self.largest = largest
        self.nodes: list[UOp] = []
        self.bits: dict[UOp, int] = {}

    def choose(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def number(self, lo: int, hi: int) -> int:
        return int(self.draw(st.integers(lo, hi)))

    def put(self, u: UOp, bits: int) -> None:
        self.nodes.append(u)
        self.bits[u] = bits

    def is_exact(self, u: UOp) -> bool:
        return not u.dtype.is_inexact or self.bits[u] <= _DIGITS.get(u.dtype.name, 3)

    def pick(self, wanted: Callable[[UOp], bool] = lambda u: True) -> UOp | None:
        found = [u for u in self.nodes if wanted(u)]
        return self.choose(found) if found else None

    def partner(self, x: UOp) -> UOp:
        """A node of x's dtype that broadcasts with x: one of the pool, or a constant."""
        y = self.pick(lambda u: u.dtype is x.dtype and _broadcasts(u.shape, x.shape))
        if y is None or self.number(0, 3) == 0:
            y = b.const(self.choose(_constants(x.dtype, self.differentiable)), x.dtype)
            self.bits[y] = 5
        return y

    def index(self, n: int, shape: tuple[int, ...]) -> UOp:
        """Indices into an axis of n elements, some out of bounds: from the pool, or constants."""
        known = self.pick(lambda u: u.dtype in (dt.int32, dt.int64) and u.shape == shape)
        if known is not None and self.number(0, 2):
            return known
        flat = [self.number(-1, n) for _ in range(math.prod(shape))]
        idx = b.iota(len(flat))
        table = b.const(0, dt.int64, (len(flat),))
        for i, v in enumerate(flat):
            table = b.where(b.eq(idx, i), b.const(v, dt.int64, (len(flat),)), table)
        return b.reshape(table, shape)


def _broadcasts(a: tuple[int, ...], c: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], c[::-1], strict=False))


def _constants(dtype: DType, differentiable: bool) -> list[Any]:
    if differentiable:
        return [0.5, -0.75, 1.0, 1.25]
    if dtype is dt.bool_:
        return [False, True]
    if dtype.is_int:
        return [0, 1, 2, 3, dt.int_range(dtype)[1], dt.int_range(dtype)[0]]
    return [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, math.inf, math.nan]


Step = Callable[[_Maker], None]


def _unary(m: _Maker) -> None:
    x = m.pick()
    if x is None:
        return
    kind = x.dtype.kind
    bits = m.bits[x]
    if m.differentiable:
        if x.dtype.is_float:
            m.put(uop(m.choose((*_SMOOTH, Op.NEG)), (x,)), _ROUNDED)
    elif kind is dt.Kind.BOOL:
        m.put(b.not_(x), 1)
    elif kind in (dt.Kind.INT, dt.Kind.UINT):
        m.put(uop(m.choose((Op.NEG, Op.NOT, Op.ABS)), (x,)), 1)
    elif kind is dt.Kind.COMPLEX:
        op = m.choose((Op.NEG, Op.REAL, Op.IMAG))
        m.put(uop(op, (x,)), bits)
    else:
        ops = [Op.NEG, Op.ABS, *_FUNCTIONS]
        if m.is_exact(x):
            ops += [Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND]
        op = m.choose(ops)
        m.put(uop(op, (x,)), _ROUNDED if op in _FUNCTIONS else bits)


def _binary(m: _Maker) -> None:
    x = m.pick()
    if x is None:
        return
    y = m.partner(x)
    if m.number(0, 1):
        x, y = y, x
    exact = m.is_exact(x) and m.is_exact(y)
    d = x.dtype
    ops = [Op.ADD, Op.MUL]
    if m.differentiable:
        ops = [Op.ADD, Op.MUL] if d.is_float else []
    elif d.is_int:
        ops += [Op.MAX, Op.MIN, Op.IDIV, Op.MOD, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR]
        ops += [Op.LT, Op.LE, Op.EQ]
    elif d is dt.bool_:
        ops += [Op.AND, Op.OR, Op.XOR, Op.MAX, Op.MIN, Op.EQ, Op.LT]
    elif d.is_float:
        ops += [Op.MAX, Op.MIN, Op.DIV, Op.COPYSIGN]
        ops += [Op.LT, Op.LE, Op.EQ, Op.MOD] if exact else []
    elif exact:
        ops += [Op.EQ]
    if not ops:
        return
    op = m.choose(ops)
    more = {Op.ADD: max(m.bits[x], m.bits[y]) + 1, Op.MUL: m.bits[x] + m.bits[y],
            Op.DIV: _ROUNDED}  # fmt: skip
    m.put(b.binary(op)(x, y), more.get(op, max(m.bits[x], m.bits[y])))


def _cast(m: _Maker) -> None:
    x = m.pick()
    if x is None or m.differentiable:
        return
    to = m.choose(m.dtypes)
    if x.dtype.is_complex and not to.is_complex:
        return
    if not m.is_exact(x) and not to.is_inexact:
        return
    bits = m.bits[x] if x.dtype.is_inexact else 8 * x.dtype.itemsize
    m.put(b.cast(x, to), bits if to.is_inexact else 1)


def _where(m: _Maker) -> None:
    x = m.pick(lambda u: u.dtype is not dt.bool_)
    if x is None:
        return
    y = m.partner(x)
    shape = b.broadcast_shapes(x.shape, y.shape)
    c = m.pick(lambda u: u.dtype is dt.bool_ and _broadcasts(u.shape, shape))
    if c is None:
        if not shape:
            return
        c = b.lt(b.iota_along(shape, len(shape) - 1), 1)
    m.put(b.where(c, x, y), max(m.bits[x], m.bits[y]))


def _movement(m: _Maker) -> None:
    x = m.pick()
    if x is None:
        return
    how = m.choose(("reshape", "permute", "expand", "pad", "shrink", "flip", "ones", "window"))
    out = x
    if how == "reshape":
        out = b.reshape(x, m.choose([(x.size,), (1, x.size), (x.size, 1), x.shape[::-1]]))
    elif how == "ones":
        at = m.number(0, x.ndim)
        out = b.reshape(x, (*x.shape[:at], 1, *x.shape[at:]))
    elif how == "permute" and x.ndim > 1:
        out = b.permute(x, m.draw(st.permutations(range(x.ndim))))
    elif how == "expand" and x.ndim < 4:
        out = b.expand(x, [(m.number(0, x.ndim), m.choose((1, 2, 3)))])
    elif how == "pad" and x.ndim:
        out = b.pad(x, [(m.number(0, 2), m.number(0, 1), m.number(0, 1)) for _ in x.shape])
    elif how == "shrink" and x.ndim:
        out = _shrunk(m, x)
    elif how == "flip" and x.ndim:
        out = b.flip(x, [i for i in range(x.ndim) if m.number(0, 1)])
    elif how == "window" and x.ndim and x.shape[0] > 1:
        out = b.window(x, 0, 2, m.choose((1, 2)))
        if m.number(0, 1):
            out = uop(Op.SKEW, (out,), out.arg)
    if out.size <= m.largest:
        m.put(out, m.bits[x])


def _box(m: _Maker, shape: tuple[int, ...]) -> tuple[list[tuple[int | None, int, int]], list[UOp]]:
    box: list[tuple[int | None, int, int]] = []
    starts: list[UOp] = []
    for n in shape:
        step = m.choose((1, 1, 2))
        size = m.number(0 if n == 0 else 1, max(0, (n - 1) // step + 1 if n else 0))
        if m.number(0, 4) == 0:
            box.append((None, size, step))
            known = m.pick(lambda u: u.dtype.is_int and u.shape == ())
            if known is not None and m.number(0, 1):
                starts.append(b.cast(known, dt.int64))
            else:
                starts.append(b.const(m.number(-1, n + 1), dt.int64))
        else:
            room = n - ((size - 1) * step + 1 if size else 0)
            box.append((m.number(0, room), size, step))
    return box, starts


def _shrunk(m: _Maker, x: UOp) -> UOp:
    box, starts = _box(m, x.shape)
    return b.shrink(x, box, starts)


def _reduce(m: _Maker) -> None:
    x = m.pick(lambda u: u.ndim > 0)
    if x is None:
        return
    axes = [i for i in range(x.ndim) if m.number(0, 1)]
    exact = m.is_exact(x)
    n = math.prod([x.shape[a] for a in axes])
    ops = [Op.ADD]
    if not m.differentiable:
        if not x.dtype.is_complex:
            ops += [Op.MAX, Op.MIN]
        if not x.dtype.is_inexact:
            ops += [Op.MUL, Op.AND, Op.OR, Op.XOR]
        elif n <= 3:
            ops += [Op.MUL]
    op = m.choose(ops)
    bits = m.bits[x] * max(n, 1) if op is Op.MUL else m.bits[x] + n.bit_length()
    if x.ndim and not x.dtype.is_complex and m.number(0, 4) == 0 and (exact or op is Op.ADD):
        axis = m.number(0, x.ndim - 1)
        op = op if op in (Op.ADD, Op.MAX, Op.MIN) else Op.ADD
        out = uop(Op.PREFIX, (x,), (op, axis, bool(m.number(0, 1))))
        m.put(out, m.bits[x] + x.shape[axis].bit_length())
        return
    m.put(b.reduce_(x, axes, op), bits if op in (Op.ADD, Op.MUL) else m.bits[x])


def _gather(m: _Maker) -> None:
    x = m.pick(lambda u: u.ndim > 0 and u.size > 0)
    if x is None:
        return
    batch = m.number(0, min(1, x.ndim - 1))
    shapes = [u.shape for u in m.nodes if u.dtype in (dt.int32, dt.int64) and u.size <= m.largest]
    more = [(), (1,), (2,), (2, 2), *[s[batch:] for s in shapes if s[:batch] == x.shape[:batch]]]
    out = b.gather(x, m.index(x.shape[batch], x.shape[:batch] + m.choose(more)), batch)
    if out.size <= m.largest:
        m.put(out, m.bits[x])


def _update(m: _Maker) -> None:
    old = m.pick(lambda u: u.ndim > 0 and u.size > 0 and not u.dtype.is_complex)
    if old is None:
        return
    modes = [Mode.SET, Mode.ADD]
    if not m.differentiable:
        modes += [Mode.MIN, Mode.MAX] + ([Mode.MUL] if old.dtype.is_int else [])
    mode = m.choose(modes)
    source = m.partner(old)
    bits = max(m.bits[old], m.bits[source])
    if m.number(0, 1):
        box, starts = _box(m, old.shape)
        want = tuple([size for _, size, _ in box])
        value = _shaped(source, want)
        m.put(b.update(old, value, mode=mode, box=box, starts=starts), bits + 1)
        return
    batch = m.number(0, min(1, old.ndim - 1))
    idx = m.index(old.shape[batch], (*old.shape[:batch], m.choose((1, 2, 3))))
    value = _shaped(source, (*idx.shape, *old.shape[batch + 1 :]))
    gate = m.pick(lambda u: u.dtype is dt.bool_ and u.shape == idx.shape)
    m.put(b.update(old, value, mode=mode, idx=idx, gate=gate, batch=batch), bits + 2)


def _shaped(x: UOp, shape: tuple[int, ...]) -> UOp:
    """x, or one element of it, broadcast to `shape`."""
    if x.ndim <= len(shape) and _broadcasts(x.shape, shape):
        fits = all(n in (1, k) for n, k in zip(x.shape[::-1], shape[::-1], strict=False))
        if fits:
            return b.broadcast_to(x, shape)
    if x.size == 0:
        return b.const(0, x.dtype, shape)
    one = b.reshape(b.shrink(x, [(0, 1, 1) for _ in x.shape]), ())
    return b.broadcast_to(one, shape)


def _sort(m: _Maker) -> None:
    x = m.pick(lambda u: u.ndim > 0 and not u.dtype.is_complex and m.is_exact(u))
    if x is None or m.differentiable:
        return
    axis = m.number(0, x.ndim - 1)
    out = uop(Op.SORT, (x, b.iota_along(x.shape, axis)), axis)
    m.put(uop(Op.GET, (out,), 0), m.bits[x])
    m.put(uop(Op.GET, (out,), 1), 1)


# ---- control flow
def _inner(m: _Maker, operands: Sequence[UOp]) -> tuple[list[UOp], _Maker]:
    """-> (open params like `operands`, a maker that has grown a few nodes on them).

    Inexact operands count as rounded: what a loop carries is not what it began with.
    """
    inner = _Maker(m.draw, m.dtypes, m.differentiable, m.largest)
    params = [open_param(x.dtype, x.shape) for x in operands]
    for p in params:
        inner.put(p, _ROUNDED if p.dtype.is_inexact else 1)
    for _ in range(m.number(1, 4)):
        m.choose(_STEPS)(inner)
    return params, inner


def _like(inner: _Maker, x: UOp) -> UOp:
    """The newest node of the aval of `x`, often; sometimes an older one."""
    found = [u for u in inner.nodes if u.dtype is x.dtype and u.shape == x.shape]
    return found[-1] if inner.number(0, 2) else inner.choose(found)


def _results(m: _Maker, u: UOp) -> None:
    for g in gets(u):
        m.put(g, _ROUNDED if g.dtype.is_inexact else 1)


def _scan(m: _Maker) -> None:
    xs = m.pick(lambda u: u.ndim > 0 and u.shape[0] <= 4)
    init, const = m.pick(), m.pick()
    if xs is None or init is None or const is None:
        return
    n = xs.shape[0]
    like_x = b.const(0, xs.dtype, xs.shape[1:])
    params, inner = _inner(m, [const, init, like_x])
    body = close(params, [_like(inner, params[1]), inner.choose(inner.nodes)])
    _results(m, uop(Op.SCAN, (const, init, xs), Scan(body, n, 1, 1, 1, bool(m.number(0, 1)))))


def _cond(m: _Maker) -> None:
    index = m.pick(lambda u: u.dtype in (dt.int32, dt.bool_) and u.shape == ())
    x, y = m.pick(), m.pick()
    if x is None or y is None:
        return
    if index is None:
        index = b.const(m.number(-1, 3), dt.int32)
    branches = []
    for _ in range(m.number(1, 3)):
        params, inner = _inner(m, [x, y])
        branches.append(close(params, [_like(inner, params[0]), _like(inner, params[1])]))
    _results(m, uop(Op.COND, (index, x, y), Cond(tuple(branches))))


def _while(m: _Maker) -> None:
    x, const = m.pick(), m.pick()
    if x is None or const is None or m.differentiable:
        return
    n = open_param(dt.int64, ())
    params, inner = _inner(m, [const, x])
    args = (params[0], n, params[1])
    test = close(args, [b.lt(n, m.number(0, 3))])
    body = close(args, [b.add(n, 1), _like(inner, params[1])])
    _results(m, uop(Op.WHILE, (const, b.const(0, dt.int64), x), While(test, body, 1)))


def _call(m: _Maker) -> None:
    x, y = m.pick(), m.pick()
    if x is None or y is None:
        return
    params, inner = _inner(m, [x, y])
    body = close(params, [inner.nodes[-1], _like(inner, params[0])])
    _results(m, uop(Op.CALL, (x, y), Call(body, "checkpoint")))


_CONTROL: tuple[Step, ...] = (_scan, _scan, _cond, _while, _call)
_STEPS: tuple[Step, ...] = (
    _unary, _binary, _binary, _cast, _where, _movement, _movement, _reduce, _gather, _update, _sort,
)  # fmt: skip


def arrays_for(
    rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], special: bool
) -> np.ndarray:
    """Values with few binary digits; with `special` also infinities, NaN, -0 and integer limits."""
    if dtype is dt.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_int:
        lo, hi = dt.int_range(dtype)
        x = rng.integers(max(lo, -4), 8, shape).astype(dtype.np)
        return np.where(rng.random(shape) < 0.1, [hi, lo][rng.integers(2)], x).astype(dtype.np)
    x = rng.integers(-8, 9, shape) / 4
    if dtype.is_complex:
        x = x + 1j * (rng.integers(-8, 9, shape) / 4)
    if special:
        odd = np.array([np.inf, -np.inf, np.nan, -0.0])[rng.integers(0, 4, shape)]
        x = np.where(rng.random(shape) < 0.2, odd, x)
    return np.asarray(x).astype(dtype.np)


@st.composite
def programs(
    draw: Callable[..., Any],
    max_nodes: int = 12,
    dtypes: Sequence[DType] = COMMON,
    differentiable: bool = False,
    special: bool | None = None,
    control: bool = False,
    shapes: Sequence[tuple[int, ...]] = SMALL,
) -> Case:
    """(Program, arrays for its parameters).

    max_nodes       most steps of construction; the program has a few more nodes than that
    dtypes          what parameters and casts are made of
    differentiable  smooth ops on floats only, on data without ties
    special         may the data hold NaN, infinities and -0? Default: unless differentiable
    control         with SCAN, COND, WHILE (unless differentiable) and checkpoint CALLs
    shapes          what the parameters are made of; nothing made of them is much larger
    """
    special = not differentiable if special is None else special
    if differentiable:
        dtypes = [d for d in dtypes if d.is_float]
    m = _Maker(draw, dtypes, differentiable, max(64, *[2 * math.prod(s) for s in shapes]))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    arrays = []
    for _ in range(draw(st.integers(1, 3))):
        p = open_param(draw(st.sampled_from(list(dtypes))), draw(st.sampled_from(list(shapes))))
        m.put(p, 5)
        if differentiable:
            arrays.append(rng.uniform(-1.5, 1.5, p.shape).astype(p.dtype.np))
        else:
            arrays.append(arrays_for(rng, p.dtype, p.shape, special))
    params = list(m.nodes)
    for _ in range(draw(st.integers(1, max_nodes))):
        draw(st.sampled_from((*_STEPS, *_CONTROL, *_CONTROL) if control else _STEPS))(m)
    used = {s for u in m.nodes for s in u.src}
    outs = [u for u in m.nodes[len(params) :] if u not in used] or params[:1]
    if differentiable:
        outs = [u for u in outs if u.dtype.is_float] or [params[0]]
    return close(params, list(dict.fromkeys(outs))), arrays


_TOLERANCE = {
    "float8_e3m4": 0.1, "float8_e4m3": 0.2, "float8_e4m3fn": 0.2, "float8_e4m3b11fnuz": 0.2, "float8_e4m3fnuz": 0.2,
    "float8_e5m2": 0.4, "float8_e5m2fnuz": 0.4, "float16": 4e-3, "bfloat16": 3e-2,
    "float32": 3e-5, "float64": 1e-11, "complex64": 3e-5, "complex128": 1e-11,
}  # fmt: skip


def close_to(got: np.ndarray, want: np.ndarray, slack: float = 1.0) -> None:
    """Equal integers, NaNs and infinities; floats within `slack` times their dtype's tolerance."""
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, want.dtype)
    if dt.to_dtype(want.dtype).is_inexact:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        tolerance = _TOLERANCE[dt.to_dtype(want.dtype).name] * slack
        np.testing.assert_allclose(
            got.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance
        )
    else:
        np.testing.assert_array_equal(got, want)
