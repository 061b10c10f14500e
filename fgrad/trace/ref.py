"""Ref: memory with an identity, read and written under every transformation.

A Ref holds a *version*: outside of any stage a concrete array, inside a stage a node. The first touch in a stage
makes the current version a parameter of it; a write makes a new version; on closing, the final versions are listed
as effects of the Program, and whoever applies the Program writes them back (`apply.py`). Local Refs leave no trace.
The order of reads and writes is thereby the order of the program text: ORDERING clauses 1 and 2 hold by
construction.
"""

from __future__ import annotations

import sys
from typing import Any

from fgrad.errors import LeakedTracerError, OrderingError, ShapeError
from fgrad.trace.stage import Stage, execute, stages
from fgrad.trace.tracer import Tracer, cast_node, lift
from fgrad.uop import build
from fgrad.uop.aval import Aval
from fgrad.uop.dtype import promote
from fgrad.uop.node import UOp, open_param


class Ref:
    """A mutable array. `r[idx]` reads a value (a snapshot), `r[idx] = v` and `r[idx] += v` write.

    Made by `new_ref`; works eagerly and under every transformation, as argument, closure or local. `freeze(r)` ends it.
    """

    __slots__ = ("_aval", "_array", "_home", "_frozen", "__weakref__")

    def __init__(self, aval: Aval, array: Any, home: Stage | None) -> None:
        self._aval = aval
        self._array = array
        self._home = home
        self._frozen = False

    @property
    def aval(self) -> Aval:
        return self._aval

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._aval.shape

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of the elements."""
        return self._aval.dtype.np

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._aval.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._aval.size

    def _alive(self) -> None:
        if self._frozen:
            raise OrderingError(
                "this Ref was frozen and can be neither read nor written; use the array that freeze returned"
            )

    def get(self) -> Any:
        """The current contents, as a value that later writes do not change."""
        self._alive()
        stack = stages()
        return Tracer(version_in(self, len(stack) - 1), self._aval.weak) if stack else self._array

    def take(self) -> Any:
        """The current version of a concrete Ref, for a call that overwrites it:

        a copy if somebody else holds it too.
        """
        self._alive()
        array = self._array
        # two references are ours (the attribute and the local), one is getrefcount's argument
        return array if sys.getrefcount(array) <= 3 else array.__copy__()

    def put(self, value: Any) -> None:
        """Make `value` (of the Ref's shape; cast to its dtype) the current contents."""
        self._alive()
        stack = stages()
        if not stack:
            self._array = run_cast(value, self._aval)
            return
        node = cast_node(value, self._aval.dtype)
        if node.shape != self._aval.shape:
            node = build.broadcast_to(node, self._aval.shape)
        version_in(self, len(stack) - 1)  # a write touches the Ref: it is an entry of this stage from now on
        stack[-1].refs[self].now = node

    def __getitem__(self, index: Any) -> Any:
        value = self.get()
        return value if index is Ellipsis else value[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check_weight(value)
        if index is Ellipsis or (isinstance(index, slice) and index == slice(None) and self.ndim == 1):
            self._fits(value)
            self.put(value)
        else:
            self.put(self.get().at[index].set(value))

    def _fits(self, value: Any) -> None:
        shape = lift(value).shape
        if shape != self.shape:
            try:
                fits = build.broadcast_shapes(shape, self.shape) == self.shape
            except ShapeError:
                fits = False
            if not fits:
                raise ShapeError(f"cannot store a value of shape {shape} in a Ref of shape {self.shape}")

    def _check_weight(self, value: Any) -> None:
        """A value that would have to be narrowed to fit is refused: nothing is silently truncated."""
        t = lift(value).aval
        if (
            not t.weak
            and promote((t.dtype, False), (self._aval.dtype, False))[0] is not self._aval.dtype
            and (t.dtype.kind > self._aval.dtype.kind)
        ):
            raise TypeError(f"cannot store {t} in a Ref of dtype {self._aval.dtype}; convert it with .astype first")

    def swap(self, index: Any, value: Any) -> Any:
        """Write `value` at `index` and return what was there."""
        old = self[index]
        self[index] = value
        return old

    def addupdate(self, index: Any, value: Any) -> None:
        """Add `value` at `index`; repeated indices all count."""
        self.put(self.get() + value if index is Ellipsis else self.get().at[index].add(value))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d Ref")
        return self.shape[0]

    def __repr__(self) -> str:
        if self._frozen:
            return f"Ref<frozen {self._aval}>"
        return f"Ref({self._array!r})" if self._array is not None else f"Ref<{self._aval}>"


class Version:
    """A Ref within one stage: what it was at first touch (None: born here) and what it is now."""

    __slots__ = ("entry", "now")

    def __init__(self, entry: UOp | None, now: UOp) -> None:
        self.entry = entry
        self.now = now

    @property
    def is_written(self) -> bool:
        return self.now is not self.entry


def version_in(ref: Ref, depth: int) -> UOp:
    """The node of the current version in stage number `depth` of the stack (-1: outside of all)."""
    stack = stages()
    if depth < 0:
        if ref._array is None:
            raise LeakedTracerError(
                f"a Ref ({ref.aval}) made inside a traced function is used after its trace has ended; return its value"
            )
        node: UOp = ref._array.as_node()
        return node
    known = stack[depth].refs
    version = known.get(ref)
    if version is None:
        if ref._array is None and all(ref not in s.refs for s in stack[:depth]):
            raise LeakedTracerError(
                f"a Ref ({ref.aval}) made inside a traced function is used after its trace has ended; return its value"
            )
        entry = open_param(ref.aval.dtype, ref.aval.shape, "ref")
        stack[depth].params.append(entry)
        version = known[ref] = Version(entry, entry)
        stands_for = stack[depth].concrete
        if stands_for is not None:
            stands_for[entry] = version_in(ref, depth - 1)
    now: UOp = version.now
    return now


def run_cast(value: Any, aval: Aval) -> Any:
    """`value` as a concrete array of exactly that aval."""
    from_value = lift(value)
    node = build.broadcast_to(build.cast(from_value.node, aval.dtype), aval.shape)
    return execute([node])[0]


def new_ref(x: Any) -> Ref:
    """A Ref that begins with the contents of `x` (an array or a number).

    >>> r = new_ref(fnp.zeros(3))
    >>> r[1] += 2
    >>> r[...]
    Array([0., 2., 0.], dtype=float32)
    """
    t = lift(x)
    aval = Aval(t.node.dtype, t.shape)
    stack = stages()
    if not stack:
        return Ref(aval, run_cast(x, aval), None)
    ref = Ref(aval, None, stack[-1])
    stack[-1].refs[ref] = Version(None, t.node)
    return ref


def freeze(ref: Ref) -> Any:
    """The final contents; the Ref cannot be used afterwards."""
    value = ref.get()
    ref._frozen = True
    return value


def swap(ref: Ref, index: Any, value: Any) -> Any:
    """Write `value` at `index` of a Ref and return what was there before."""
    return ref.swap(index, value)


def touched(stage: Stage) -> list[tuple[Ref, Version]]:
    """The outer Refs that a stage has read or written, in order of first touch."""
    return [(r, v) for r, v in stage.refs.items() if v.entry is not None]
