"""Values of nodes at an index, for every renderer of the kernel tree: rules 1 to 6 of `kernel`,
written once.

A `Walk` knows the rules; what a value is (an array, the name of a C variable) belongs to its
subclass. Values are remembered in the innermost open level, as compiled code keeps them in
registers: within one pass of a loop's body a node at an index has one value, also when memory it
was read from changes meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from fgrad.errors import SpecError
from fgrad.lower.index import Atom, AtomKind, Cond, Expr, Index
from fgrad.lower.kernel import Acc, Keep, Kernel, Store
from fgrad.lower.views import VIEWS, step
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp
from fgrad.uop.op import ELEMENTWISE, Op

V = TypeVar("V")
Conds = tuple[Cond, ...]
Key = tuple[UOp, Index, Conds]
View = tuple[UOp, Index, Conds]
APPLIED = frozenset((*ELEMENTWISE, Op.BITCAST))


class Views:
    """`views.step` of one kernel, remembered."""

    def __init__(self, kernel: Kernel) -> None:
        self.ranges = kernel.ranges
        self._known: dict[tuple[UOp, Index], View] = {}

    def __call__(self, u: UOp, index: Index) -> View:
        found = self._known.get((u, index))
        if found is None:
            source, inner, added = step(self.ranges, u, index)
            found = self._known[u, index] = source, inner, self.ranges.conditions(added)
        return found


class Walk(ABC, Generic[V]):
    """Evaluates the nodes of one kernel.

    `conds` say where a value is wanted; they hold in order, each where those before it do.
    Elsewhere the value is arbitrary, but nothing is accessed out of bounds for it.
    """

    def __init__(self, kernel: Kernel, views: Views) -> None:
        self.kernel = kernel
        self.ranges = kernel.ranges
        self.views = views
        self.memo: list[dict[Key, V]] = [{}]
        self.numbers: list[dict[tuple[int, Conds], V]] = [{}]
        self.accs: dict[UOp, Acc] = {}
        self.kept: dict[UOp, Keep | Store] = {}

    # ---- what a value is
    @abstractmethod
    def constant(self, u: UOp) -> V:
        """The value of a CONST."""

    @abstractmethod
    def iota(self, dtype: DType, e: Expr, conds: Conds) -> V:
        """An index as a value of `dtype`."""

    @abstractmethod
    def accumulated(self, acc: Acc) -> V:
        """The present value of an accumulator, in its node's dtype."""

    @abstractmethod
    def kept_element(self, s: Keep | Store, conds: Conds) -> V:
        """What statement `s` wrote, at the present positions."""

    @abstractmethod
    def load(self, buffer: int, u: UOp, address: Expr, conds: Conds) -> V:
        """An element of a buffer, 0 where `conds` fail."""

    @abstractmethod
    def zero_unless(self, conds: Conds, before: Conds, x: V, dtype: DType) -> V:
        """x where `conds` hold, else 0; they are looked at only where `before` hold."""

    @abstractmethod
    def apply(self, u: UOp, xs: list[V]) -> V:
        """Elementwise node `u` on the values of its sources."""

    @abstractmethod
    def ranged(self, t: int) -> V:
        """The position of range `t`, as an integer."""

    @abstractmethod
    def sum_of(self, constant: int, terms: list[tuple[V, int]]) -> V:
        """constant + sum of value * coefficient, as an integer."""

    @abstractmethod
    def divided(self, kind: AtomKind, x: V, by: int) -> V:
        """x // by or x % by of a non-negative integer."""

    @abstractmethod
    def number_of(self, x: V, a: Atom, conds: Conds) -> V:
        """A value of an integer node as an index, clamped to the atom's bounds where it says so."""

    # ---- levels
    def open_level(self) -> None:
        """What is computed from here on is forgotten at `close_level`."""
        self.memo.append({})
        self.numbers.append({})

    def close_level(self) -> None:
        self.memo.pop()
        self.numbers.pop()

    def forget(self) -> None:
        """Compute everything anew: a node has another value from here on."""
        for level in self.memo:
            level.clear()
        for numbers in self.numbers:
            numbers.clear()

    def _find(self, key: Key) -> V | None:
        for level in reversed(self.memo):
            found = level.get(key)
            if found is not None:
                return found
        return None

    # ---- integers
    def number(self, e: Expr, conds: Conds = ()) -> V:
        """An index expression, wanted where `conds` hold."""
        return self.sum_of(e[0], [(self._atom(t, conds), c) for t, c in e[1]])

    def _atom(self, t: int, conds: Conds) -> V:
        a = self.ranges.atoms[t]
        if a.kind is AtomKind.RANGE:
            return self.ranged(t)
        key = (t, conds if self.is_computed(t) else ())
        for level in reversed(self.numbers):
            found = level.get(key)
            if found is not None:
                return found
        if a.kind is AtomKind.VALUE:
            assert a.node is not None
            x = self.number_of(self.value(a.node, a.index, conds), a, conds)
        else:
            x = self.divided(a.kind, self.number(a.inner, conds), a.by)
        self.numbers[-1][key] = x
        return x

    def is_computed(self, t: int) -> bool:
        """Whether atom `t` depends on values of the program."""
        return any(self.ranges.atoms[b].kind is AtomKind.VALUE for b in self.ranges.bases(t))

    # ---- values
    def value(self, u: UOp, index: Index, conds: Conds = ()) -> V:
        """`u[index]` where `conds` hold. The walk is iterative: programs are deep."""
        root: Key = (u, index, conds)
        found = self._find(root)
        if found is not None:
            return found
        stack = [root]
        while stack:
            key = stack[-1]
            if self._find(key) is not None:
                stack.pop()
                continue
            x = self._ready(key, stack)
            if x is not None:
                self.memo[-1][key] = x
                stack.pop()
        found = self._find(root)
        assert found is not None
        return found

    def _ready(self, key: Key, stack: list[Key]) -> V | None:
        """The value of `key`, or None after pushing what it still needs."""
        u, index, conds = key
        leaf = self._leaf(u, index, conds)
        if leaf is not None:
            return leaf
        if u.op in VIEWS:
            source, inner, added = self.views(u, index)
            below = (source, inner, conds + tuple([c for c in added if c not in conds]))
            x = self._find(below)
            if x is None:
                stack.append(below)
                return None
            return self.zero_unless(added, conds, x, u.dtype) if added else x
        if u.op not in APPLIED:
            raise SpecError(
                f"kernel {self.kernel.name} needs {u!r}, which it neither loads nor accumulates; "
                f"partition must give every {u.op.name} a kernel of its own or a loop"
            )
        operands = []
        missing = False
        for s in u.src:
            x = self._find((s, index, conds))
            if x is None:
                stack.append((s, index, conds))
                missing = True
            else:
                operands.append(x)
        return None if missing else self.apply(u, operands)

    def _leaf(self, u: UOp, index: Index, conds: Conds) -> V | None:
        kept = self.kept.get(u)
        if kept is not None:
            return self.kept_element(kept, conds)
        acc = self.accs.get(u)
        if acc is not None:
            return self.accumulated(acc)
        if u in self.kernel.loads:
            return self.load(self.kernel.loads[u], u, self.ranges.address(index, u.shape), conds)
        if u.op is Op.CONST:
            return self.constant(u)
        if u.op is Op.IOTA:
            return self.iota(u.dtype, index[0], conds)
        return None


def nodes_read(
    kernel: Kernel, views: Views, root: UOp, index: Index
) -> Iterator[tuple[UOp, Index]]:
    """Every (node, index) that evaluating `root[index]` may look at, those in computed indices
    included.
    """
    stack: list[tuple[UOp, Index]] = [(root, index)]
    seen: set[tuple[UOp, Index]] = set()
    while stack:
        at = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        yield at
        u, index = at
        if u in kernel.loads:
            stack += values_in(kernel, kernel.ranges.address(index, u.shape))
        elif u.op in VIEWS:
            source, inner, added = views(u, index)
            stack.append((source, inner))
            for e, _, _ in added:
                stack += values_in(kernel, e)
        elif u.op is Op.IOTA:
            stack += values_in(kernel, index[0])
        elif u.op in APPLIED:
            stack += [(s, index) for s in u.src]


def values_in(kernel: Kernel, e: Expr) -> Iterator[tuple[UOp, Index]]:
    """The computed integers in an index expression."""
    for t in sorted(kernel.ranges.bases_of(e)):
        a = kernel.ranges.atoms[t]
        if a.node is not None:
            yield a.node, a.index
