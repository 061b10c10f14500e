"""Which values can be infinite or NaN although the program's inputs are finite, and which are flat.

Overflow of sums and products is left aside; signs are looked at, so that sqrt(v + eps), the
denominator of a softmax and the exponential of a shifted logit count as finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from fgrad.uop.build import is_const, scalar_of
from fgrad.uop.node import UOp
from fgrad.uop.op import ROUNDING, Op
from fgrad.uop.program import Program

# infinite or NaN for some finite operand
SINGULAR = frozenset((
    Op.DIV, Op.SQRT, Op.RSQRT, Op.CBRT, Op.EXP, Op.EXP2, Op.EXPM1, Op.LOG, Op.LOG2, Op.LOG10,
    Op.LOG1P, Op.TAN, Op.ASIN, Op.ACOS, Op.SINH, Op.COSH, Op.ACOSH, Op.ATANH, Op.ERF_INV, Op.LGAMMA,
    Op.DIGAMMA, Op.MOD, Op.POW,
))  # fmt: skip
_PASSES = frozenset((
    Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.FLIP, Op.WINDOW, Op.SKEW, Op.CAST,
    Op.NEG, Op.ABS, Op.ADD, Op.MUL, Op.REAL, Op.IMAG, Op.COMPLEX, Op.REDUCE, Op.PREFIX, Op.GATHER,
    Op.AFTER, Op.COPY, Op.MAX, Op.MIN, Op.SIN, Op.COS, Op.ASINH, Op.SOFTPLUS, Op.HYPOT,
    Op.LOGADDEXP, *ROUNDING,
))  # fmt: skip
_VIEWS = (Op.EXPAND, Op.RESHAPE, Op.PERMUTE, Op.FLIP, Op.CAST, Op.AFTER, Op.COPY)
_LOOK = 48  # nodes looked at before a factor counts as singular
_DEEP = 16  # ops above a value whose sign is found
UNKNOWN, NOT_NEGATIVE, POSITIVE = range(3)  # POSITIVE: by a margin that does not depend on data
_signs: WeakKeyDictionary[UOp, int] = WeakKeyDictionary()
_infinite: WeakKeyDictionary[UOp, bool] = WeakKeyDictionary()


class Singular:
    """Asks of a node whether it can be infinite or NaN; of `params` it is known that they can."""

    def __init__(self, params: Sequence[UOp] = ()) -> None:
        self.known: dict[UOp, bool] = dict.fromkeys(params, True)

    def __call__(self, r: UOp) -> bool:
        found = self.known.get(r)
        if found is None:
            found = self.known[r] = self._search(r)
        return found

    def divides(self, y: UOp) -> bool:
        """Whether dividing by `y` can give what is not finite."""
        if is_const(y):
            return bool(scalar_of(y) == 0)
        return sign(y) is not POSITIVE

    def _search(self, r: UOp) -> bool:
        seen: set[UOp] = set()
        stack = [r]
        while stack:
            q = stack.pop()
            if q in seen or self.known.get(q) is False:
                continue
            if self.known.get(q) or len(seen) > _LOOK:
                return True
            seen.add(q)
            if q.op is Op.DIV and not self.divides(q.src[1]):
                stack.append(q.src[0])
            elif q.op in SINGULAR:
                if not _is_tame(q):
                    return True
                stack.extend(q.src)
            elif q.op in _PASSES:
                stack.extend([s for s in q.src if s.dtype is q.dtype or q.op is not Op.GATHER])
            elif q.op is Op.WHERE:
                stack.extend(q.src[1:])
            elif q.op is Op.GET and self._loop(q):
                return True
        return False

    def _loop(self, q: UOp) -> bool:
        """A result of a call: look into its program; what it was given is taken as finite."""
        arg = q.src[0].arg
        bodies: tuple[Program, ...] = ()
        if q.src[0].op in (Op.SCAN, Op.WHILE, Op.CALL):
            bodies = (arg.body,)
        elif q.src[0].op is Op.COND:
            bodies = arg.branches
        inner = Singular()
        return any(inner(b.outs[q.arg]) for b in bodies)


def can_be_infinite(x: UOp) -> bool:
    """Whether `x` can be infinite or NaN for finite inputs."""
    found = _infinite.get(x)
    if found is None:
        found = _infinite[x] = Singular()(x)
    return found


def is_sum_of_squares(x: UOp, deep: int = _DEEP) -> bool:
    """Whether `x` is never negative, and does not move where it is 0.

    So its square root has the derivative 0 there, as a norm.
    """
    x = _base(x)
    if is_const(x):
        return bool(scalar_of(x) == 0)
    if deep == 0 or not x.dtype.is_float:
        return False
    if x.op is Op.MUL:
        a, b = x.src
        if a is b:
            return True
        flat = (is_sum_of_squares(a, deep - 1), is_sum_of_squares(b, deep - 1))
        return all(flat) or (flat[0] and sign(b) is POSITIVE) or (flat[1] and sign(a) is POSITIVE)
    if x.op is Op.POW:
        return is_const(x.src[1]) and _is_even(float(scalar_of(x.src[1])))
    if x.op is Op.DIV:
        return is_sum_of_squares(x.src[0], deep - 1) and sign(x.src[1]) is POSITIVE
    if x.op is Op.ADD:
        return all(is_sum_of_squares(s, deep - 1) for s in x.src)
    if x.op is Op.WHERE:
        return all(is_sum_of_squares(s, deep - 1) for s in x.src[1:])
    if x.op is Op.REDUCE:
        return x.arg[0] in (Op.ADD, Op.MAX) and is_sum_of_squares(x.src[0], deep - 1)
    return False


def _is_even(c: float) -> bool:
    return c >= 2 and c % 2 == 0


def _is_tame(q: UOp) -> bool:
    """An op of SINGULAR on an operand for which it is finite."""
    x = q.src[0]
    if q.op in (Op.RSQRT, Op.LOG, Op.LOG2, Op.LOG10):
        return sign(x) is POSITIVE
    if q.op is Op.SQRT:  # finite at 0 too, where its derivative is not
        return sign(x) is not UNKNOWN
    if q.op is Op.LOG1P:
        return sign(x) is not UNKNOWN
    if q.op in (Op.EXP, Op.EXP2, Op.EXPM1):
        return _is_at_most_zero(x)
    if q.op is not Op.POW or not is_const(q.src[1]):
        return False
    exponent = float(scalar_of(q.src[1]))
    return exponent >= 0 and exponent.is_integer()


def _base(x: UOp) -> UOp:
    while x.op in _VIEWS:
        x = x.src[0]
    return x


def _peeled(m: UOp) -> UOp:
    """What `m` is for finite inputs: below views, a constant in place of infinities, still."""
    m = _base(m)
    if m.op is Op.WHERE and is_const(m.src[2]):
        m = _base(m.src[1])
    if m.op is Op.GET and m.src[0].op is Op.CALL:
        body: Program = m.src[0].arg.body
        out = body.outs[m.arg]
        if out in body.params:
            m = _base(m.src[0].src[body.params.index(out)])
    return m


def _is_extreme_of(m: UOp, x: UOp, op: Op) -> bool:
    """`m` is the maximum (minimum) of `x` over some axes, put back over them."""
    m = _peeled(m)
    return m.op is Op.REDUCE and m.arg[0] is op and m.src[0] is x


def _is_at_most_zero(x: UOp) -> bool:
    """-|y|, or y minus its maximum."""
    if x.op is Op.NEG:
        return sign(x.src[0]) is not UNKNOWN
    if x.op is not Op.ADD:
        return False
    pairs = (x.src, x.src[::-1])
    return any(b.op is Op.NEG and _is_extreme_of(b.src[0], a, Op.MAX) for a, b in pairs)


def sign(x: UOp, deep: int = _DEEP) -> int:
    """UNKNOWN, NOT_NEGATIVE or POSITIVE."""
    x = _base(x)
    found = _signs.get(x)
    if found is None:
        found = _signs[x] = _sign(x, deep)
    return found


def _sign(x: UOp, deep: int) -> int:
    if is_const(x):
        v = scalar_of(x)
        if x.dtype.is_complex:
            return UNKNOWN
        return POSITIVE if v > 0 else NOT_NEGATIVE if v == 0 else UNKNOWN
    if deep == 0 or x.dtype.is_complex:
        return UNKNOWN
    if x.op is Op.ADD:
        a, b = sign(x.src[0], deep - 1), sign(x.src[1], deep - 1)
        return max(a, b) if a and b else UNKNOWN
    if x.op is Op.MUL:
        if x.src[0] is x.src[1]:
            return NOT_NEGATIVE
        return min(sign(x.src[0], deep - 1), sign(x.src[1], deep - 1))
    if x.op is Op.DIV:
        return NOT_NEGATIVE if all(sign(s, deep - 1) for s in x.src) else UNKNOWN
    if x.op is Op.MAX:
        return max(sign(x.src[0], deep - 1), sign(x.src[1], deep - 1))
    if x.op in (Op.MIN, Op.WHERE):
        return min(sign(x.src[-2], deep - 1), sign(x.src[-1], deep - 1))
    if x.op is Op.REDUCE and x.arg[0] in (Op.ADD, Op.MAX, Op.MIN):
        return POSITIVE if _has_a_one(x) else min(sign(x.src[0], deep - 1), NOT_NEGATIVE)
    if x.op is Op.SQRT:
        return max(sign(x.src[0], deep - 1), NOT_NEGATIVE)
    if x.op is Op.COSH:
        return POSITIVE
    if x.op in (Op.ABS, Op.EXP, Op.EXP2, Op.SIGMOID, Op.SOFTPLUS, Op.HYPOT):
        return NOT_NEGATIVE
    return UNKNOWN


def _has_a_one(u: UOp) -> bool:
    """A sum of exp(x - max x), or of the ties with the extreme: at least 1."""
    y = u.src[0]
    if u.arg[0] is not Op.ADD:
        return False
    if y.op is Op.EXP:
        return y.src[0].op is Op.ADD and _is_at_most_zero(y.src[0]) and _is_over(y.src[0], u.arg[1])
    y = _base(y)
    if y.op is not Op.EQ:
        return False
    pairs = (y.src, y.src[::-1])
    return any(_is_extreme_of(b, a, op) for a, b in pairs for op in (Op.MAX, Op.MIN))


def _is_over(shifted: UOp, axes: tuple[int, ...]) -> bool:
    """The maximum in y - max y was taken over these very axes."""
    for a, b in (shifted.src, shifted.src[::-1]):
        if b.op is Op.NEG and _is_extreme_of(b.src[0], a, Op.MAX):
            return bool(_peeled(b.src[0]).arg[1] == axes)
    return False
