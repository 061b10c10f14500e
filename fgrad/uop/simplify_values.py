"""Simplification rows of elementwise ops and of tuples. `#` gives each row's equation.

Nothing here changes a NaN, an infinity or the sign of a zero: `x + 0` stays (it turns -0 into 0),
`x * 0` goes only for integers, `not (x < y)` becomes `y <= x` only where there is no NaN.
"""

from __future__ import annotations

import math

import numpy as np

from fgrad.uop import dtype as dt
from fgrad.uop import meaning
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, const_value, uop
from fgrad.uop.op import COMPARE, ELEMENTWISE, Op
from fgrad.uop.pattern import Make, Rows, constant, filled, holds, is_value, value
from fgrad.uop.simplify_views import spread_over

rows = Rows()


@rows(*ELEMENTWISE)
def _(u: UOp, make: Make) -> UOp | None:
    """f(constants) == a constant; f(expand x, expand y) == expand(f(x, y)) along common axes."""
    common: dict[int, int] | None = None
    folds = True
    for s in u.src:
        if s.op is Op.EXPAND:
            if folds and s.src[0].op is not Op.CONST:
                folds = False
            if common is None:
                common = dict(s.arg)
            else:
                common = {a: n for a, n in s.arg if a in common}
        elif s.op is Op.CONST:
            common = {}
        else:
            return filled(0, u) if 0 in u.shape else None
    if folds:
        return spread_over(_folded(u), dict(enumerate(u.shape)), make)
    if not common:
        return None
    stay = [i for i in range(u.ndim) if i not in common]
    place = {a: i for i, a in enumerate(stay)}
    src = tuple([
        spread_over(s.src[0], {place[a]: n for a, n in s.arg if a in place}, make) for s in u.src
    ])  # fmt: skip
    return spread_over(make(u.op, src, u.arg), common, make)


def _folded(u: UOp) -> UOp:
    """The CONST of an op on constants."""
    scalars = [constant(s) for s in u.src]
    with np.errstate(all="ignore"):
        out = meaning.apply(u, *[np.asarray(const_value(c)) for c in scalars if c is not None])
    if u.dtype.is_float and np.isnan(out):  # one NaN, whatever its sign was
        out = np.full((), np.nan, u.dtype.np)
    return uop(Op.CONST, (), (u.dtype, out.tobytes()))


# ---- constants to the right
@rows(Op.ADD, Op.MUL, Op.AND, Op.OR, Op.XOR, Op.EQ)
def _(u: UOp, make: Make) -> UOp | None:
    x, y = u.src
    if constant(x) is not None:  # c + x == x + c
        return make(u.op, (y, x), None)
    if u.op in (Op.ADD, Op.MUL) and u.dtype.is_int and x.op is u.op:
        c, d = value(y), value(x.src[1])
        if c is not None and d is not None:  # (x + d) + c == x + (d + c), integers
            total = int(c) + int(d) if u.op is Op.ADD else int(c) * int(d)
            return make(u.op, (x.src[0], filled(total, u)), None)
    return None


# ---- one operand
@rows(Op.NEG, Op.NOT)
def _(u: UOp, make: Make) -> UOp | None:
    x = u.src[0]
    if x.op is u.op:  # --x == x
        return x.src[0]
    if u.op is Op.NOT and x.op in (Op.LT, Op.LE) and not x.src[0].dtype.is_float:
        return make(Op.LE if x.op is Op.LT else Op.LT, x.src[::-1], None)  # not x < y == y <= x
    return None


@rows(Op.ABS)
def _(u: UOp, make: Make) -> UOp | None:
    x = u.src[0]
    if x.op is Op.ABS or (u.dtype.is_int and make.bounds(x)[0] >= 0):  # ||x|| == |x|
        return x
    return make(Op.ABS, x.src, None) if x.op is Op.NEG else None  # |-x| == |x|


@rows(Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND)
def _(u: UOp, make: Make) -> UOp | None:
    x = u.src[0]
    if x.op in (Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND):  # floor(ceil x) == ceil x
        return x
    if x.op is Op.CAST and x.src[0].dtype.kind <= dt.Kind.INT:  # floor of an integer == itself
        return x
    return None


@rows(Op.REAL, Op.IMAG)
def _(u: UOp, make: Make) -> UOp | None:
    x = u.src[0]
    return x.src[u.op is Op.IMAG] if x.op is Op.COMPLEX else None  # real(complex(x, y)) == x


@rows(Op.COMPLEX)
def _(u: UOp, make: Make) -> UOp | None:
    x, y = u.src
    if x.op is Op.REAL and y.op is Op.IMAG and x.src == y.src:  # complex(real z, imag z) == z
        return x.src[0]
    return None


@rows(Op.CAST)
def _(u: UOp, make: Make) -> UOp | None:
    x = u.src[0]
    if x.dtype is u.dtype:  # cast to the same dtype == x
        return x
    if x.op is Op.IOTA and _counts_to(u.dtype, x.arg[1]):  # cast(0, 1, ..) == 0, 1, ..
        return uop(Op.IOTA, (), (u.dtype, x.arg[1]))
    if x.op is Op.CAST and _is_direct(x.src[0].dtype, x.dtype, u.dtype):
        return make(Op.CAST, x.src, u.dtype)  # cast(cast x) == cast x
    return None


def _counts_to(dtype: DType, n: int) -> bool:
    """Does the dtype hold all of 0 .. n-1?"""
    if dtype.is_int:
        return n - 1 <= dt.int_range(dtype)[1]
    return dtype in (dt.float32, dt.float64) and n <= 1 << 24


def _is_direct(a: DType, via: DType, to: DType) -> bool:
    """Is a cast of `a` to `to` the same with and without a stop at `via`?"""
    if via.is_int and a.is_int and to.is_int and to.bits <= via.bits:
        return True  # both drop high bits
    if via.is_complex and not a.is_complex:
        via = dt.real_of(via)  # the imaginary part is 0
        if a is via:
            return True
    if a.is_complex:
        return via is dt.complex128 and (to.is_complex or to.is_float)
    if via.is_complex or not holds(via, a):
        return False
    if a is dt.bool_ or to is dt.bool_ or via.kind is a.kind:
        return True
    if a.is_int and via.is_float:  # floats saturate where integers wrap; small floats round twice
        return to in (dt.float32, dt.float64) or to.is_complex or holds(to, a)
    return a.is_int and via.is_int


# ---- two operands
@rows(Op.MUL)
def _(u: UOp, make: Make) -> UOp | None:
    x, y = u.src
    c = value(y)
    if c is None or u.dtype.is_complex:  # (a+bi)(1+0i) is NaN where b is infinite
        return None
    if c == 1:  # x*1 == x
        return x
    if c == 0 and not u.dtype.is_float:  # x*0 == 0, integers
        return y
    if u.dtype is not dt.bool_ and u.dtype.kind is not dt.Kind.UINT and c == -1:  # x*-1 == -x
        return make(Op.NEG, (x,), None)
    return None


@rows(Op.DIV)
def _(u: UOp, make: Make) -> UOp | None:
    x, y = u.src
    c = value(y)
    if c is None or u.dtype.is_complex:
        return None
    if c == 1:  # x/1 == x
        return x
    fraction, exponent = math.frexp(float(c)) if math.isfinite(c) else (0.0, 0)
    if abs(fraction) == 0.5 and abs(exponent) < _SAFE_EXPONENT[u.dtype.name]:
        return make(Op.MUL, (x, filled(1 / float(c), u)), None)  # x/2**k == x * 2**-k
    return None


_SAFE_EXPONENT = {
    "float8_e4m3fn": 4, "float8_e5m2": 12, "float8_e3m4": 2, "float8_e4m3": 4, "float8_e4m3b11fnuz": 4,
    "float8_e4m3fnuz": 4, "float8_e5m2fnuz": 12, "float16": 12, "bfloat16": 120, "float32": 120, "float64": 1000,
}  # fmt: skip


@rows(Op.ADD)
def _(u: UOp, make: Make) -> UOp | None:
    x, y = u.src
    c = value(y)
    if c is not None and c == 0:
        if not u.dtype.is_inexact:  # x+0 == x, integers
            return x
        if u.dtype.is_float and np.signbit(np.float64(c)):  # x + -0.0 == x
            return x
    if u.dtype.is_int and (y.op is Op.NEG and y.src[0] is x or x.op is Op.NEG and x.src[0] is y):
        return filled(0, u)  # x - x == 0, integers
    if u.dtype is dt.bool_ and (x is y or c is not None):  # x or x == x, x or true == true
        return x if x is y else y
    return None


@rows(Op.IDIV, Op.MOD)
def _(u: UOp, make: Make) -> UOp | None:
    x, y = u.src
    if not u.dtype.is_int:
        return None
    if is_value(y, 1):  # x//1 == x, x%1 == 0, integers
        return x if u.op is Op.IDIV else filled(0, u)
    if constant(y) is not None:
        (lo, hi), n = make.bounds(x), int(value(y))
        if 0 <= lo and hi < n:  # x//n == 0, x%n == x, for 0 <= x < n
            return filled(0, u) if u.op is Op.IDIV else x
    return None


@rows(Op.MAX, Op.MIN)
def _(u: UOp, make: Make) -> UOp | None:
    x, y = u.src
    if x is y:  # max(x, x) == x
        return x
    if u.dtype.is_float:  # the sign of a zero may depend on the order
        return None
    if u.dtype.is_int:
        a, c = make.bounds(x), make.bounds(y)
        if a[1] <= c[0] or c[1] <= a[0]:  # max(x, y) == y where x <= y
            return y if (a[1] <= c[0]) is (u.op is Op.MAX) else x
    if x.op is u.op and y in x.src:  # max(max(x, y), y) == max(x, y)
        return x
    return y if y.op is u.op and x in y.src else None


@rows(Op.POW)
def _(u: UOp, make: Make) -> UOp | None:
    x, y = u.src
    c = value(y)
    if c == 1:  # x**1 == x
        return x
    if c == 2:  # x**2 == x*x
        return make(Op.MUL, (x, x), None)
    return filled(1, u) if c == 0 else None  # x**0 == 1, also for NaN


@rows(Op.AND, Op.OR, Op.XOR)
def _(u: UOp, make: Make) -> UOp | None:
    x, y = u.src
    if x is y:  # x & x == x, x ^ x == 0
        return filled(0, u) if u.op is Op.XOR else x
    c = value(y)
    if c is None:
        return None
    if c == 0:  # x & 0 == 0, x | 0 == x, x ^ 0 == x
        return y if u.op is Op.AND else x
    ones = True if u.dtype is dt.bool_ else -1 if u.dtype.is_signed else dt.int_range(u.dtype)[1]
    if c == ones:  # x & -1 == x, x | -1 == -1, x ^ -1 == ~x
        return {Op.AND: x, Op.OR: y}.get(u.op) or make(Op.NOT, (x,), None)
    return None


@rows(Op.SHL, Op.SHR)
def _(u: UOp, make: Make) -> UOp | None:
    return u.src[0] if is_value(u.src[1], 0) else None  # x << 0 == x


# ---- comparisons
@rows(*COMPARE)
def _(u: UOp, make: Make) -> UOp | None:
    x, y = u.src
    if x is y and (u.op is Op.LT or not x.dtype.is_inexact):  # x < x == false, x == x is true
        return filled(u.op is not Op.LT, u)
    if u.op is Op.EQ and x.dtype is dt.bool_:
        c = value(y)
        if c is not None:  # (x == true) == x
            return x if c else make(Op.NOT, (x,), None)
    if not x.dtype.is_int:
        return None
    lo, hi = make.bounds(u)
    return filled(bool(lo), u) if lo == hi else None  # decided by the bounds of both sides


# ---- WHERE
@rows(Op.WHERE)
def _(u: UOp, make: Make) -> UOp | None:
    c, x, y = u.src
    if x is y:  # where(c, x, x) == x
        return x
    known = value(c)
    if known is not None:  # where(true, x, y) == x
        return x if known else y
    if c.op is Op.NOT:  # where(not c, x, y) == where(c, y, x)
        return make(Op.WHERE, (c.src[0], y, x), None)
    if x.op is Op.WHERE and x.src[0] is c:  # where(c, where(c, x, y), z) == where(c, x, z)
        return make(Op.WHERE, (c, x.src[1], y), None)
    if y.op is Op.WHERE and y.src[0] is c:
        return make(Op.WHERE, (c, x, y.src[2]), None)
    if u.dtype is dt.bool_:
        a, d = value(x), value(y)
        if a is not None and d is not None:  # where(c, true, false) == c
            return c if a else make(Op.NOT, (c,), None)
    return None


# ---- tuples, order, calls
@rows(Op.GET)
def _(u: UOp, make: Make) -> UOp | None:
    x = u.src[0]
    return x.src[u.arg] if x.op is Op.TUPLE else None  # (x, y)[0] == x


@rows(Op.AFTER)
def _(u: UOp, make: Make) -> UOp | None:
    return u.src[0] if len(u.src) == 1 else None  # after nothing == x
