"""Indices as instructions: a position in a loop, in lanes or not, as i64 registers and masks.

A vector loop binds its range to `base + W*u + lane`: base advances by whole vectors, u counts
the unrolled copies. "Is a vector" is a property of an expression: the coefficient of `lane` in
it, or irregular.
"""

from __future__ import annotations

from dataclasses import dataclass

from fgrad.lower.alu import Alu
from fgrad.lower.emit import I64, Emitter
from fgrad.lower.index import AtomKind, Cond, Expr, Index, Ranges, add, constant, scale
from fgrad.uop.node import UOp


@dataclass(slots=True, eq=False)
class VectorBinding:
    """How the open vector loop binds its range: base = quotient atom * W (or a constant), copy u,
    lane.
    """

    range: int
    base: I64
    quotient: Expr  # the atom base / W; ZERO-like constant when base is known
    u: int = 0


class Lanes:
    """The bindings of open ranges, and index arithmetic under them. `value_i64` is supplied by the
    evaluator.
    """

    def __init__(self, emitter: Emitter, ranges: Ranges, width: int, vector: Alu) -> None:
        self.e = emitter
        self.ranges = ranges
        self.width = width
        self.vector = vector
        self.position: dict[int, I64] = {}
        self.open: VectorBinding | None = None
        self.lane = ranges.range(width)[1][0][0] if width > 1 else -1
        self._quotients: dict[int, Expr] = {}
        self._split: dict[tuple[object, ...], tuple[Expr, int | None]] = {}
        self.scaled: set[int] = set()
        self.within: tuple[Cond, ...] = ()  # where the integers now written are wanted

    # ---- bindings
    def bind_vector(self, atom: int, size: int, base: I64) -> VectorBinding:
        """Open a vector loop over range `atom` at element position `base`."""
        if isinstance(base, int):
            quotient: Expr = constant(base)
        else:
            q = self._quotients.get(atom)
            if q is None:
                q = self._quotients[atom] = self.ranges.range(max(size // self.width, 2))
            t = q[1][0][0]
            self.position[t] = base
            self.scaled.add(t)
            quotient = scale(q, self.width)
        self.open = VectorBinding(atom, base, quotient)
        return self.open

    def split(self, e: Expr) -> tuple[Expr, int | None]:
        """-> (the expression without lane, coefficient of lane; None if lanes are irregular)."""
        v = self.open
        if v is None:
            return e, 0
        depends = False
        plain = True
        for t, _ in e[1]:
            if t == v.range:
                depends = True
            elif v.range in self.ranges.bases(t):
                depends = True
                plain = False
        if not depends:
            return e, 0
        key = (e, v.quotient, v.u)
        found = self._split.get(key)
        if found is None:
            found = self._split[key] = self._split_now(e, v, plain)
        return found

    def _split_now(self, e: Expr, v: VectorBinding, plain: bool) -> tuple[Expr, int | None]:
        at = add((v.quotient[0] + self.width * v.u, v.quotient[1]), (0, ((self.lane, 1),)))
        moved = self.ranges.substitute(e, {v.range: at}, values=False)
        if not plain:
            moved = self.ranges.recombine(moved)
        k = 0
        rest: list[tuple[int, int]] = []
        for t, c in moved[1]:
            if t == self.lane:
                k = c
            elif self._in_lanes(t):
                return moved, None
            else:
                rest.append((t, c))
        return (moved[0], tuple(rest)), k

    def _in_lanes(self, t: int) -> bool:
        """Whether an atom of a split expression differs from lane to lane (VALUEs keep the range
        itself).
        """
        bases = self.ranges.bases(t)
        return self.lane in bases or (self.open is not None and self.open.range in bases)

    # ---- scalars
    def i64(self, e: Expr) -> I64:
        """A lane-free expression."""
        if not e[1]:
            return e[0]
        depth = self.e.depth
        terms = [(self._term(t, c)) for t, c in e[1]]
        if len(terms) > 1:
            terms.sort(key=lambda x: depth.get(x, 0) if isinstance(x, str) else 0)
        out: I64 = 0
        for x in terms:
            out = self.e.add(out, x)
        return self.e.add(out, e[0])

    def _term(self, t: int, c: int) -> I64:
        if t in self.scaled:
            base = self.position[t]
            if c % self.width == 0:
                return self.e.mul(base, c // self.width)
            shift = self.width.bit_length() - 1
            return self.e.mul(self.e.value(f"lshr i64 {base}, {shift}", base), c)
        return self.e.mul(self.atom(t), c)

    def atom(self, t: int) -> I64:
        """The value of an atom that does not depend on the lane."""
        found = self.position.get(t)
        if found is not None:
            return found
        a = self.ranges.atoms[t]
        if a.kind is AtomKind.VALUE:
            assert a.node is not None
            x = self.integer(a.node, a.index)
            if a.clamped:
                x = self.e.minimum(self.e.maximum(x, a.lo), a.hi)
            return x
        assert a.kind is not AtomKind.RANGE, f"range r{t} is not open"
        x = self.i64(a.inner)
        if isinstance(x, int):
            return x // a.by if a.kind is AtomKind.DIV else x % a.by
        return self.e.value(f"{'udiv' if a.kind is AtomKind.DIV else 'urem'} i64 {x}, {a.by}", x)

    def integer(self, node: UOp, index: Index) -> I64:
        """The scalar integer `node[index]` as i64, wanted `within`; the evaluator provides it."""
        raise NotImplementedError

    def integers(self, node: UOp, index: Index) -> str:
        """`node[index]` in lanes, as a vector of i64, wanted `within`; the evaluator provides it."""
        raise NotImplementedError

    # ---- vectors
    def steps(self, k: int, kind: str = "i64") -> str:
        """<0, k, 2k, ..>."""
        return "<" + ", ".join(f"{kind} {i * k}" for i in range(self.width)) + ">"

    def vector_of(self, e: Expr) -> str:
        """An irregular expression (as `split` returned it) as a vector of i64."""
        v = self.vector
        out: str | None = None
        scalar: list[tuple[int, int]] = []
        for t, c in e[1]:
            if t == self.lane:
                x = self.steps(1)
            elif self._in_lanes(t):
                x = self._atom_lanes(t)
            else:
                scalar.append((t, c))
                continue
            if c != 1:
                x = self.e.value(f"mul {v.t('i64')} {x}, {v.c('i64', c)}", x)
            out = x if out is None else self.e.value(f"add {v.t('i64')} {out}, {x}", out, x)
        base = self.i64((e[0], tuple(scalar)))
        assert out is not None
        if base == 0:
            return out
        b = v.splat(str(base), "i64") if isinstance(base, str) else v.c("i64", base)
        return self.e.value(f"add {v.t('i64')} {out}, {b}", out, b)

    def _atom_lanes(self, t: int) -> str:
        a = self.ranges.atoms[t]
        v = self.vector
        if a.kind is AtomKind.VALUE:
            assert a.node is not None
            x = self.integers(a.node, a.index)
            if not a.clamped:
                return x
            low = v.e.value(f"icmp slt {v.t('i64')} {x}, {v.c('i64', a.lo)}", x)
            x = v.select(low, "i64", v.c("i64", a.lo), x)
            high = v.e.value(f"icmp sgt {v.t('i64')} {x}, {v.c('i64', a.hi)}", x)
            return v.select(high, "i64", v.c("i64", a.hi), x)
        x = self.vector_of(a.inner)
        word = "udiv" if a.kind is AtomKind.DIV else "urem"
        if a.by & (a.by - 1) == 0:  # a power of two needs no division
            word, by = ("lshr", a.by.bit_length() - 1) if word == "udiv" else ("and", a.by - 1)
            return self.e.value(f"{word} {v.t('i64')} {x}, {v.c('i64', by)}", x)
        if self.ranges.bounds(a.inner)[1] < 1 << 31:  # 32-bit division by a constant is a multiplication in vectors
            narrow = self.e.value(f"trunc {v.t('i64')} {x} to {v.t('i32')}", x)
            q = self.e.value(f"{word} {v.t('i32')} {narrow}, {v.c('i32', a.by)}", narrow)
            return self.e.value(f"zext {v.t('i32')} {q} to {v.t('i64')}", q)
        return self.e.value(f"{word} {v.t('i64')} {x}, {v.c('i64', a.by)}", x)

    # ---- conditions
    def masks(self, conds: tuple[Cond, ...], before: tuple[Cond, ...] = ()) -> tuple[str | None, str | None]:
        """-> (scalar i1 or None, lane mask or None): both must hold.

        Each condition is looked at only where those in front of it, and `before`, hold: an integer
        in it may be computed from an element that exists nowhere else.
        """
        scalar: str | None = None
        lanes: str | None = None
        outer = self.within
        for n, (e, lo, hi) in enumerate(conds):
            self.within = before + conds[:n]
            rest, k = self.split(e)
            if k == 0:
                a = self.e.add(self.i64(rest), -lo)
                x = self._below(a, hi - lo)
                scalar = x if scalar is None else self.e.value(f"and i1 {scalar}, {x}", scalar, x)
                continue
            v = self.vector
            if k is None:
                w = self.vector_of((rest[0] - lo, rest[1]))
            else:
                base = self.e.add(self.i64(rest), -lo)
                steps = self.steps(k)
                if base == 0:
                    w = steps
                else:
                    b = v.splat(str(base), "i64")
                    w = self.e.value(f"add {v.t('i64')} {steps}, {b}", b)
            x = self.e.value(f"icmp ult {v.t('i64')} {w}, {v.c('i64', hi - lo)}", w)
            lanes = x if lanes is None else v.both(lanes, x)
        self.within = outer
        return scalar, lanes

    def _below(self, a: I64, n: int) -> str:
        if isinstance(a, int):
            return "true" if 0 <= a < n else "false"
        return self.e.value(f"icmp ult i64 {a}, {n}", a)
