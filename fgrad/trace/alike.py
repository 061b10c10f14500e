"""alike: the programs of one function at three sizes, seen as one.

A Program knows no symbols: at another size a function is another Program. But where the function does the same at all
sizes, its programs have one structure and differ in numbers only: lengths of axes, bounds, constants. Three of them are
walked in step:

    top    at the upper bounds of the sizes: its shapes are those of the bounded program
    near   at other sizes: what differs from `top` depends on a size
    now    at the sizes of a call: its numbers are the scalars that the bounded program is called with

Whatever is computed of a size in Python (``1 / n``, ``n // 2 + 1``, a mask made with NumPy) is thereby a number that is
right, since the function itself has computed it. What is not alike raises `Unlike`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.trace.rules import Rules
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import is_const, scalar_of
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Program

Dim = int | UOp  # a length: always the same one, or an int64 scalar
Value = Any  # the bounded node, or the list of members of a tuple-valued one
Numbers = tuple[bytes, bytes, bytes]
Sizes = tuple[int, int, int]
bounding = Rules("dynamic sizes")


class Alike(NamedTuple):
    """The same node of the three programs."""

    top: UOp
    near: UOp
    now: UOp

    @property
    def op(self) -> Op:
        return self.top.op

    @property
    def args(self) -> tuple[Any, Any, Any]:
        return self.top.arg, self.near.arg, self.now.arg

    def source(self, i: int) -> Alike:
        return Alike(self.top.src[i], self.near.src[i], self.now.src[i])

    @property
    def sources(self) -> list[Alike]:
        return [Alike(*s) for s in zip(self.top.src, self.near.src, self.now.src, strict=True)]

    def same(self, of: Callable[[Any], Any] = lambda arg: arg) -> Any:
        """What `of` makes of the args of all three; raises Unlike where that differs."""
        first, *others = [of(arg) for arg in self.args]
        if any(x != first for x in others):
            raise Unlike(self, f"{self.op.name} differs in more than sizes")
        return first


class Unlike(Exception):
    """The programs differ at `where` in more than numbers."""

    def __init__(self, where: Alike, why: str) -> None:
        super().__init__(why)
        self.where = where
        self.why = why


class Scalars:
    """The numbers that differ, each one scalar parameter of the bounded program (or of one inside it).

    make   (position, dtype) -> the parameter
    """

    def __init__(self, make: Callable[[int, DType], UOp]) -> None:
        self.make = make
        self.known: dict[tuple[DType, Numbers], UOp] = {}

    def get(self, dtype: DType, numbers: Numbers) -> UOp:
        """The scalar that is one of `numbers` in each program."""
        found = self.known.get((dtype, numbers))
        if found is None:
            found = self.known[dtype, numbers] = self.make(len(self.known), dtype)
        return found

    def number(self, dtype: DType, numbers: Numbers) -> UOp:
        """A constant where all three are one, else the scalar. Complex numbers are two of them."""
        if numbers[0] == numbers[1] == numbers[2]:
            return uop(Op.CONST, (), (dtype, numbers[0]))
        if dtype.is_complex:
            half = dtype.itemsize // 2
            parts = [tuple([n[i : i + half] for n in numbers]) for i in (0, half)]
            return build.complex_(*[self.number(dt.real_of(dtype), p) for p in parts])  # type: ignore[arg-type]
        return self.get(dtype, numbers)

    def size(self, *numbers: int) -> Dim:
        """The length that is one of `numbers` in each program."""
        top, near, now = numbers
        if top == near == now:
            return top
        return self.get(dt.int64, (_bytes(top), _bytes(near), _bytes(now)))

    def values(self) -> list[tuple[DType, bytes]]:
        """What the scalars are in the program `now`."""
        return [(dtype, numbers[2]) for dtype, numbers in self.known]


def _bytes(n: int) -> bytes:
    return np.int64(n).tobytes()


class Walk:
    """One walk over three programs in step.

    A row of `bounding` receives the nodes, their bounded sources and the walk; it returns the bounded node: as it is in
    `top`, with the values of `now` inside the lengths of `now`, and any values beyond them.

    given         the bounded nodes of parameters
    is_outermost  other parameters stand for themselves, and so do nodes that are equal in all programs
    """

    def __init__(self, scalars: Scalars, given: dict[Alike, Value], is_outermost: bool = False) -> None:
        self.scalars = scalars
        self.values = dict(given)
        self.is_outermost = is_outermost
        self.cleared: dict[Any, UOp] = {}

    def outs(self, roots: Sequence[Alike]) -> list[Value]:
        """The bounded nodes of `roots`."""
        values = self.values
        stack: list[tuple[Alike, bool]] = [(r, False) for r in reversed(roots)]
        while stack:
            a, is_ready = stack.pop()
            if a in values:
                continue
            if self.is_outermost and a.top is a.near is a.now:
                values[a] = a.top
                continue
            full = aligned(a)
            if is_ready:
                if full not in values:
                    values[full] = self._value(full)
                values[a] = values[full]
                continue
            check_alike(full)
            stack.append((a, True))
            stack += [(s, False) for s in reversed(full.sources) if s not in values]
        return [values[r] for r in roots]

    def _value(self, a: Alike) -> Value:
        src = [self.values[s] for s in a.sources]
        if a.op is Op.GET:
            members = src[0]
            at = a.same()
            return members[at] if type(members) is list else uop(Op.GET, (members,), at)
        return bounding[a.op](a, src, self)

    def dims(self, a: Alike) -> tuple[Dim, ...]:
        """The lengths of the axes."""
        return tuple([self.scalars.size(*n) for n in zip(a.top.shape, a.near.shape, a.now.shape, strict=True)])


def aligned(a: Alike) -> Alike:
    """`a` without what was simplified at some sizes only: views that move nothing there, such as x[-3:] of 3 elements,
    and x / 8, which is x * 0.125.
    """
    ops = {u.op for u in a}
    if len(ops) == 1 or isinstance(a.now.dtype, tuple):
        return a
    if ops == {Op.MUL, Op.DIV}:
        return Alike(*[_as_quotient(u) for u in a])
    for like in (a.top, a.now, a.near):
        op = like.op
        if op in _DROPPED and len(ops - {op}) == 1 and all(u.ndim == like.ndim for u in a):
            return Alike(*[u if u.op is op else uop(op, (u,), _DROPPED[op](u, like.arg)) for u in a])
    return a


def _as_quotient(u: UOp) -> UOp:
    """x * 2**-k as x / 2**k."""
    if u.op is Op.DIV or not is_const(u.src[1]):
        return u
    inverse = 1 / float(scalar_of(u.src[1]))
    return uop(Op.DIV, (u.src[0], build.const(inverse, u.dtype, u.shape)))


# the arg with which a view moves nothing, or, for FLIP, only axes of one element
_DROPPED: dict[Op, Callable[[UOp, Any], Any]] = {
    Op.RESHAPE: lambda u, arg: u.shape,
    Op.PAD: lambda u, arg: ((0, 0, 0),) * u.ndim,
    Op.SHRINK: lambda u, arg: tuple([(0, n, 1) for n in u.shape]),
    Op.FLIP: lambda u, arg: arg if all(u.shape[i] < 2 for i in arg) else (),
}


def check_alike(a: Alike) -> None:
    """Raise Unlike where the nodes differ in op, dtype, or number of sources or axes, or where `top` is too small."""
    top, near, now = a
    if not (top.op is near.op is now.op):
        raise Unlike(a, f"it is {_named(now)} there, and {_named(top if top.op is not now.op else near)} elsewhere")
    if not (top.dtype == near.dtype == now.dtype) or not (len(top.src) == len(near.src) == len(now.src)):
        raise Unlike(a, f"{a.op.name} has other operands")
    for big, other, small in zip(_shapes(top), _shapes(near), _shapes(now), strict=True):
        if not (len(big) == len(other) == len(small)):
            raise Unlike(a, f"{a.op.name} has {len(small)} axes there, and {len(big)} elsewhere")
        if any(m < n for m, n in zip(big, small, strict=True)):
            raise Unlike(a, f"{a.op.name} is larger, {list(small)}, than at the upper bound, {list(big)}")


def _named(u: UOp) -> str:
    return f"{u.op.name} of shape {list(u.shape)}"


def _shapes(u: UOp) -> Iterator[tuple[int, ...]]:
    shapes: Any = u.shape
    return iter((shapes,) if isinstance(u.dtype, DType) else shapes)


def roots_of(programs: Sequence[Program]) -> list[Alike]:
    """The outputs of three programs in step."""
    return [Alike(*o) for o in zip(*[p.outs for p in programs], strict=True)]


def params_of(programs: Sequence[Program]) -> list[Alike]:
    """The parameters of three programs in step."""
    return [Alike(*p) for p in zip(*[p.params for p in programs], strict=True)]
