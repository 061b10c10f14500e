"""Index expressions: interned sums of ranges, quotients and remainders, with bounds.

An expression is a plain tuple `(const, ((atom, coef), ...))`, terms sorted by atom, no zero
coefficient; equal expressions are equal tuples. An atom is a number into its `Ranges`, which says
what it is (`Atom`):

    RANGE   a loop's position, 0 <= r < size
    DIV     e // c, of a non-negative expression e
    MOD     e %  c, of a non-negative expression e
    VALUE   an integer of the program, known at run time only: `node` evaluated at `index`, clamped
    to lo..hi
            (both ends included) where `clamped`; where not, lo..hi is the range of its type

Every kernel has its own `Ranges`, so numbering is canonical: equal kernels have equal expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import gcd

from fgrad.uop.node import UOp

Expr = tuple[int, tuple[tuple[int, int], ...]]
Index = tuple[Expr, ...]
Cond = tuple[Expr, int, int]  # (e, lo, hi): holds where lo <= e < hi
ZERO: Expr = (0, ())


class AtomKind(Enum):
    """What an atom of an index expression is."""

    RANGE = "range"
    DIV = "div"
    MOD = "mod"
    VALUE = "value"


@dataclass(frozen=True, slots=True, eq=False)
class Atom:
    """An atom with its bounds lo..hi (included). `inner` and `by` of DIV and MOD; `node` and
    `index` of VALUE.
    """

    kind: AtomKind
    lo: int
    hi: int
    inner: Expr = ZERO
    by: int = 1
    node: UOp | None = None
    index: Index = ()
    clamped: bool = True


def constant(c: int) -> Expr:
    return (c, ())


def add(a: Expr, b: Expr, k: int = 1) -> Expr:
    """a + k * b."""
    if not b[1]:
        return (a[0] + k * b[0], a[1])
    if not a[1] and k == 1:
        return (a[0] + b[0], b[1])
    terms = dict(a[1])
    for t, c in b[1]:
        v = terms.get(t, 0) + k * c
        if v:
            terms[t] = v
        else:
            terms.pop(t, None)
    return (a[0] + k * b[0], tuple(sorted(terms.items())))


def scale(a: Expr, k: int) -> Expr:
    """k * a."""
    if k == 1:
        return a
    return (a[0] * k, tuple([(t, c * k) for t, c in a[1]])) if k else ZERO


def strides(shape: Sequence[int]) -> list[int]:
    """Row-major strides in elements."""
    out: list[int] = []
    step = 1
    for n in reversed(shape):
        out.append(step)
        step *= n
    return out[::-1]


class Ranges:
    """The atoms of one kernel and the arithmetic on expressions over them."""

    __slots__ = ("atoms", "limits", "_known", "_bases")

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self.limits: dict[int, Expr] = {}  # RANGE atoms that stay below an expression, in code for a processor
        self._known: dict[tuple[object, ...], int] = {}
        self._bases: dict[int, frozenset[int]] = {}

    # ---- making atoms
    def range(self, size: int) -> Expr:
        """A fresh range of `size` positions; of one position: the constant 0."""
        if size == 1:
            return ZERO
        self.atoms.append(Atom(AtomKind.RANGE, 0, size - 1))
        return (0, ((len(self.atoms) - 1, 1),))

    def ranges(self, shape: Sequence[int]) -> Index:
        """A fresh range for each axis."""
        return tuple([self.range(n) for n in shape])

    def value(self, node: UOp, index: Index, lo: int, hi: int, clamped: bool = True) -> Expr:
        """The integer `node[index]`, clamped to lo..hi."""
        if clamped and lo == hi:
            return constant(lo)
        key = (AtomKind.VALUE, node, index, lo, hi, clamped)
        t = self._known.get(key)
        if t is None:
            self.atoms.append(Atom(AtomKind.VALUE, lo, hi, node=node, index=index, clamped=clamped))
            t = self._known[key] = len(self.atoms) - 1
        return (0, ((t, 1),))

    def _atom(self, kind: AtomKind, e: Expr, c: int) -> Expr:
        key = (kind, e, c)
        t = self._known.get(key)
        if t is None:
            lo, hi = self.bounds(e)
            lo, hi = (lo // c, hi // c) if kind is AtomKind.DIV else (0, min(c - 1, hi))
            self.atoms.append(Atom(kind, lo, hi, e, c))
            t = self._known[key] = len(self.atoms) - 1
        return (0, ((t, 1),))

    # ---- what is known
    def bounds(self, e: Expr) -> tuple[int, int]:
        """Smallest and largest value, both included."""
        lo = hi = e[0]
        for t, c in e[1]:
            a = self.atoms[t]
            if c > 0:
                lo += c * a.lo
                hi += c * a.hi
            else:
                lo += c * a.hi
                hi += c * a.lo
        return lo, hi

    def bases(self, t: int) -> frozenset[int]:
        """The RANGE and VALUE atoms that atom `t` is made of (a VALUE counts with the ranges of its
        index).
        """
        found = self._bases.get(t)
        if found is None:
            a = self.atoms[t]
            if a.kind is AtomKind.RANGE:
                found = frozenset((t,))
            elif a.kind is AtomKind.VALUE:
                found = frozenset((t,)).union(*[self.bases_of(i) for i in a.index])
            else:
                found = self.bases_of(a.inner)
            self._bases[t] = found
        return found

    def bases_of(self, e: Expr) -> frozenset[int]:
        """The RANGE and VALUE atoms that `e` depends on."""
        if len(e[1]) == 1:
            return self.bases(e[1][0][0])
        return frozenset().union(*[self.bases(t) for t, _ in e[1]])

    # ---- arithmetic
    def div(self, e: Expr, c: int) -> Expr:
        """e // c (floor), c > 0."""
        if c == 1:
            return e
        q, r = _split(e, c)
        lo, hi = self.bounds(r)
        if lo // c == hi // c:
            return (q[0] + lo // c, q[1])
        if lo < 0:  # atoms hold non-negative expressions only
            shift = -(lo // c)
            q, r = (q[0] - shift, q[1]), (r[0] + shift * c, r[1])
        g = c
        for _, k in r[1]:
            if gcd(g, k) > 1:
                g = gcd(g, k)
        if 1 < g < c:  # (g*E + s) // c = E // (c/g) where 0 <= s < g
            big, small = _split(r, g)
            lo, hi = self.bounds(small)
            if lo >= 0 and hi < g and c % g == 0:
                return add(q, self.div(big, c // g))
        if len(r[1]) == 1 and r[0] == 0 and r[1][0][1] == 1:
            a = self.atoms[r[1][0][0]]
            if a.kind is AtomKind.DIV:  # (e // a) // c = e // (a*c)
                return add(q, self.div(a.inner, a.by * c))
        return add(q, self._atom(AtomKind.DIV, r, c))

    def mod(self, e: Expr, c: int) -> Expr:
        """e % c (of the sign of c), c > 0."""
        if c == 1:
            return ZERO
        _, r = _split(e, c)
        lo, hi = self.bounds(r)
        if lo // c == hi // c:
            return (r[0] - (lo // c) * c, r[1])
        if lo < 0:
            r = (r[0] - (lo // c) * c, r[1])
        g = c
        for _, k in r[1]:
            if gcd(g, k) > 1:
                g = gcd(g, k)
        if 1 < g < c and c % g == 0:
            big, small = _split(r, g)
            lo, hi = self.bounds(small)
            if lo >= 0 and hi < g:
                return add(scale(self.mod(big, c // g), g), small)
        return self._atom(AtomKind.MOD, r, c)

    def substitute(self, e: Expr, m: Mapping[int, Expr], values: bool = True) -> Expr:
        """`e` with RANGE atoms replaced, also inside quotients, remainders and (if `values`) the
        indices of VALUEs.
        """
        out: Expr = (e[0], ())
        for t, c in e[1]:
            got = m.get(t)
            if got is None:
                a = self.atoms[t]
                keep = a.kind is AtomKind.RANGE or (a.kind is AtomKind.VALUE and not values)
                if keep or self.bases(t).isdisjoint(m):
                    got = (0, ((t, 1),))
                elif a.kind is AtomKind.DIV:
                    got = self.div(self.substitute(a.inner, m, values), a.by)
                elif a.kind is AtomKind.MOD:
                    got = self.mod(self.substitute(a.inner, m, values), a.by)
                else:
                    assert a.node is not None
                    index = tuple([self.substitute(i, m) for i in a.index])
                    got = self.value(a.node, index, a.lo, a.hi, a.clamped)
            out = add(out, got, c)
        return out

    def recombine(self, e: Expr) -> Expr:
        """k*(e % c) + k*c*(e // c) = k*e, until nothing matches."""
        while len(e[1]) > 1:
            coefs = dict(e[1])
            for t, k in e[1]:
                a = self.atoms[t]
                if a.kind is not AtomKind.MOD:
                    continue
                q = self.div(a.inner, a.by)
                if len(q[1]) == 1 and q[1][0][1] == 1 and coefs.get(q[1][0][0]) == k * a.by:
                    e = add(e, (0, ((t, k), (q[1][0][0], k * a.by))), -1)
                    e = add((e[0] - q[0] * k * a.by, e[1]), a.inner, k)
                    break
            else:
                return e
        return e

    def linear(self, index: Sequence[Expr], shape: Sequence[int]) -> Expr:
        """The row-major position of `index` in an array of `shape`."""
        out = ZERO
        for i, step, n in zip(index, strides(shape), shape, strict=True):
            if n != 1:
                out = add(out, i, step)
        return out

    def address(self, index: Sequence[Expr], shape: Sequence[int]) -> Expr:
        """`linear`, recombined."""
        return self.recombine(self.linear(index, shape))

    def delinear(self, e: Expr, shape: Sequence[int]) -> list[Expr]:
        """The index of row-major position `e` in an array of `shape`."""
        out: list[Expr] = []
        for step, n in zip(strides(shape), shape, strict=True):
            if n == 1:
                out.append(ZERO)
                continue
            d = self.div(e, step)
            lo, hi = self.bounds(d)
            out.append(d if 0 <= lo and hi < n else self.mod(d, n))
        return out

    def conditions(self, conds: Iterable[Cond]) -> tuple[Cond, ...]:
        """Conditions without those that always hold, each once."""
        out: dict[Cond, None] = {}
        for e, lo, hi in conds:
            a, b = self.bounds(e)
            if a < lo or (b >= hi and not self._is_below(e, hi)):
                out[(e, lo, hi)] = None
        return tuple(out)

    def _is_below(self, e: Expr, hi: int) -> bool:
        """Whether e < hi follows from the limit of a range."""
        return any([k == 1 and add(e, self.limits[t]) == (hi, ((t, 1),)) for t, k in e[1] if t in self.limits])

    # ---- showing
    def show(self, e: Expr) -> str:
        """Readable text of an expression."""
        parts: list[str] = []
        for t, c in e[1]:
            a = self.atoms[t]
            if a.kind is AtomKind.RANGE:
                text = f"r{t}"
            elif a.kind is AtomKind.VALUE:
                assert a.node is not None
                text = f"{a.node.op.name.lower()}[{', '.join(map(self.show, a.index))}]"
                if a.clamped:
                    text = f"clamp({text}, {a.lo}, {a.hi})"
            else:
                text = f"({self.show(a.inner)}{'//' if a.kind is AtomKind.DIV else '%'}{a.by})"
            parts.append(text if c == 1 else f"{c}*{text}")
        if e[0] or not parts:
            parts.append(str(e[0]))
        return "+".join(parts)


def _split(e: Expr, c: int) -> tuple[Expr, Expr]:
    """e = c*q + r: the terms divisible by c, and the others."""
    q: list[tuple[int, int]] = []
    r: list[tuple[int, int]] = []
    for t, k in e[1]:
        if k % c == 0:
            q.append((t, k // c))
        else:
            r.append((t, k))
    return (e[0] // c, tuple(q)), (e[0] % c, tuple(r))
