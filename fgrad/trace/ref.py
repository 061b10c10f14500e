"""Ref: memory with an identity, read and written under every transformation.

A Ref holds a *version*: outside of any stage a concrete array, inside a stage a node. The first touch in a stage
makes the current version a parameter of it; a write makes a new version; on closing, the final versions are listed
as effects of the Program, and whoever applies the Program writes them back (`apply.py`). Local Refs leave no trace.
The order of reads and writes is thereby the order of the program text: ORDERING clauses 1 and 2 hold by
construction.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from fgrad.errors import ArgumentError, DtypeError, LeakedTracerError, OrderingError, ShapeError, describe
from fgrad.trace import tree
from fgrad.trace.frames import trim_methods
from fgrad.trace.stage import Stage, execute, stages
from fgrad.trace.tracer import Tracer, aval_of, cast_node, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.dtype import promote
from fgrad.uop.node import UOp, open_param


class Ref:
    """A mutable array. `r[idx]` reads a value (a snapshot), `r[idx] = v` and `r[idx] += v` write.

    Made by `new_ref`; works eagerly and under every transformation, as argument, closure or local. `freeze(r)` ends it.

    >>> r = new_ref(fnp.zeros(3))
    >>> r[1] = 5.0
    >>> r[...] += 1
    >>> r[...]
    Array([1., 6., 1.], dtype=float32)
    """

    __slots__ = ("_aval", "_array", "_frozen", "_reverse", "__weakref__")

    def __init__(self, aval: Aval, array: Any) -> None:
        self._aval = aval
        self._array = array
        self._frozen = False
        self._reverse: Reverse | None = None

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

    @property
    def reverse(self) -> Reverse:
        """What stands for this Ref in the backward pass."""
        if self._reverse is None:
            self._reverse = Reverse(self)
        return self._reverse

    def _outside(self) -> UOp:
        """The contents outside of all stages."""
        if self._array is None:
            raise _ended(self)
        node: UOp = self._array.as_node()
        return node

    def _first_version(self, stack: Sequence[Stage], depth: int) -> Version:
        """What stage number `depth` begins with."""
        if self._array is None and all(self not in s.refs for s in stack[:depth]):
            raise _ended(self)
        return _entered(self, stack, depth)

    def _alive(self) -> None:
        if self._frozen:
            raise OrderingError(
                "this Ref was frozen and can be neither read nor written; use the array that freeze returned"
            )

    def get(self) -> Any:
        """The current contents, as a value that later writes do not change."""
        self._alive()
        if stages():
            return Tracer(current(self), self._aval.weak)
        if self._array is None:
            raise _ended(self)
        return self._array

    def take(self) -> Any:
        """The current version of a concrete Ref, for a call that overwrites it:

        a copy if somebody else holds it too.
        """
        self._alive()
        array = self._array
        # two references are ours (the attribute and the local), one is getrefcount's argument
        return array if sys.getrefcount(array) <= 3 else array.__copy__()

    def hold(self, array: Any) -> None:
        """Make a concrete array of the Ref's shape and dtype, which nobody else has, the current contents."""
        self._alive()
        self._array = array

    def put(self, value: Any) -> None:
        """Make `value` (of the Ref's shape; cast to its dtype) the current contents."""
        self._alive()
        stack = stages()
        if not stack:
            if self._array is None:
                raise _ended(self)
            self._array = _own(value, self._aval)
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
        dtype = self._aval.dtype
        if t.dtype.kind > dtype.kind and promote((t.dtype, t.weak), (dtype, False))[0] is not dtype:
            raise DtypeError(f"cannot store {t} in a Ref of dtype {dtype}; convert it with .astype first")

    def swap(self, index: Any, value: Any) -> Any:
        """Write `value` at `index` and return what was there."""
        old = self[index]
        self[index] = value
        return old

    def addupdate(self, index: Any, value: Any) -> None:
        """Add `value` at `index`; repeated indices all count."""
        self._check_weight(value)
        self.put(self.get() + value if index is Ellipsis else self.get().at[index].add(value))

    @property
    def at(self) -> _Places:
        """`r.at[idx]` is the part of the Ref at `idx`: to be read and written as a Ref is.

        >>> r = new_ref(fnp.zeros(4))
        >>> r.at[1:3][...] += 1
        >>> r[...]
        Array([0., 1., 1., 0.], dtype=float32)
        """
        return _Places(self)

    def unsafe_buffer_pointer(self) -> int:
        """The address of the present contents in the device's memory; the next write may move them."""
        address: int = self.get().unsafe_buffer_pointer()
        return address

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d Ref")
        return self.shape[0]

    def __repr__(self) -> str:
        if self._frozen:
            return f"Ref<frozen {self._aval}>"
        return f"Ref({self._array!r})" if self._array is not None else f"Ref<{self._aval}>"


class _Places:
    """`Ref.at`: what follows in brackets is a place."""

    __slots__ = ("whole",)

    def __init__(self, whole: Ref | Part) -> None:
        self.whole = whole

    def __getitem__(self, index: Any) -> Part:
        return Part(self.whole, index)


class Part:
    """The part of a Ref at an index: has no contents of its own; reads and writes those of the Ref."""

    __slots__ = ("_whole", "_index")

    def __init__(self, whole: Ref | Part, index: Any) -> None:
        self._whole = whole
        self._index = index

    def get(self) -> Any:
        """What the Ref contains here now, as a value that later writes do not change."""
        return self._whole[self._index]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return lift(self.get()).shape

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of the elements."""
        return self._whole.dtype

    @property
    def at(self) -> _Places:
        """Parts of this part."""
        return _Places(self)

    def __getitem__(self, index: Any) -> Any:
        value = self.get()
        return value if index is Ellipsis else value[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._whole[self._index] = value if index is Ellipsis else self.get().at[index].set(value)

    def swap(self, index: Any, value: Any) -> Any:
        """Write `value` at `index` and return what was there."""
        old = self[index]
        self[index] = value
        return old

    def addupdate(self, index: Any, value: Any) -> None:
        """Add `value` at `index`; repeated indices all count."""
        self._whole[self._index] = self[...] + value if index is Ellipsis else self.get().at[index].add(value)

    def __repr__(self) -> str:
        return f"Part of {self._whole!r} at {self._index!r}"


trim_methods(Ref, ("__getitem__", "__setitem__", "__len__"))
trim_methods(Part, ("__getitem__", "__setitem__"))


class Version:
    """A Ref within one stage: what it was at first touch (None: born here) and what it is now."""

    __slots__ = ("entry", "now")

    def __init__(self, entry: UOp | None, now: UOp) -> None:
        self.entry = entry
        self.now = now

    @property
    def is_written(self) -> bool:
        return self.now is not self.entry


class Lost(Version):
    """A Ref whose contents cannot be known in this stage; `why` says so to who asks for them."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why
        self.entry = None

    @property
    def now(self) -> UOp:  # type: ignore[override]
        raise OrderingError(self.why)


class Reverse(Ref):
    """What stands for a Ref in the backward pass.

    A rule of the backward pass may write a Ref too. Such writes happen in the reverse order of the forward pass, as
    cotangents do: the contents of the Ref during the backward pass travel as the cotangent of this second Ref, which
    every call that has such a rule takes in and gives back (`custom.py`, `transforms.py`). Its own contents are zeros,
    and mean nothing.
    """

    __slots__ = ("of",)

    def __init__(self, of: Ref) -> None:
        super().__init__(carried_aval(of.aval), None)
        self.of = weakref.ref(of)

    def put(self, value: Any) -> None:
        """Make `value` the current version; outside of all stages there is none."""
        if stages():
            super().put(value)

    def _alive(self) -> None:
        """A Ref that was frozen by now has a backward pass all the same."""

    def _outside(self) -> UOp:
        return build.const(0, self._aval.dtype, self._aval.shape)

    def _first_version(self, stack: Sequence[Stage], depth: int) -> Version:
        of = self.of()
        own = None if of is None else stack[depth].refs.get(of)
        if own is not None and own.entry is None:  # made here: its backward pass ends here
            return Version(None, self._outside())
        return _entered(self, stack, depth)


def carried_aval(aval: Aval) -> Aval:
    """The aval of what carries contents of `aval` as a cotangent, exactly: see `carried`."""
    if aval.dtype.is_inexact:
        return Aval(aval.dtype, aval.shape)
    return Aval(dt.float64, aval.shape if aval.dtype.itemsize < 8 else (*aval.shape, 2))


def carried(x: UOp) -> UOp:
    """`x` in a floating dtype that holds it exactly: itself, float64, or for 64-bit integers two of these."""
    if x.dtype.is_inexact:
        return x
    if x.dtype.itemsize < 8:
        return build.cast(x, dt.float64)
    high, low = build.shr(x, build.const_like(32, x)), build.and_(x, build.const_like((1 << 32) - 1, x))
    return build.concatenate([build.expand(build.cast(h, dt.float64), [(x.ndim, 1)]) for h in (high, low)], x.ndim)


def uncarried(x: UOp, aval: Aval) -> UOp:
    """The contents of `aval` that `x` carries."""
    if aval.dtype.is_inexact or aval.dtype.itemsize < 8:
        return build.cast(x, aval.dtype)
    high, low = [
        build.cast(build.reshape(build.slice_axis(x, x.ndim - 1, k, k + 1), aval.shape), aval.dtype) for k in (0, 1)
    ]
    return build.or_(build.shl(high, build.const_like(32, high)), low)


def exists(ref: Ref) -> bool:
    """Whether `ref` can be used here."""
    return not ref._frozen and (ref._array is not None or any(ref in s.refs for s in stages()))


def _ended(ref: Ref) -> LeakedTracerError:
    return LeakedTracerError(
        f"a Ref ({ref.aval}) made inside a traced function is used after its trace has ended; return its value"
    )


def _entered(ref: Ref, stack: Sequence[Stage], depth: int) -> Version:
    """The version of an outer Ref in a stage that touches it for the first time: a parameter."""
    entry = open_param(ref.aval.dtype, ref.aval.shape, "ref")
    stack[depth].params.append(entry)
    stands_for = stack[depth].concrete
    if stands_for is not None:
        stands_for[entry] = version_in(ref, depth - 1)
    return Version(entry, entry)


def version_in(ref: Ref, depth: int) -> UOp:
    """The node of the current version in stage number `depth` of the stack (-1: outside of all)."""
    if depth < 0:
        return ref._outside()
    stack = stages()
    known = stack[depth].refs
    version = known.get(ref)
    if version is None:
        version = known[ref] = ref._first_version(stack, depth)
    now: UOp = version.now
    return now


def current(ref: Ref) -> UOp:
    """The node of the current version, here."""
    return version_in(ref, len(stages()) - 1)


def ref_over(contents: UOp, reverse: UOp | None = None) -> Ref:
    """A Ref of the open stage that begins with `contents`, and whose `reverse` begins with that."""
    ref = Ref(Aval(contents.dtype, contents.shape), None)
    begin(ref, contents, reverse)
    return ref


def begin(ref: Ref, contents: UOp, reverse: UOp | None = None) -> None:
    """Make these the first versions of `ref` in the open stage, as if it were made there."""
    versions = stages()[-1].refs
    versions[ref] = Version(None, contents)
    if reverse is not None:
        versions[ref.reverse] = Version(None, reverse)


def _own(value: Any, aval: Aval) -> Any:
    """`value` as a concrete array of exactly that aval, which nobody else has: it may be donated, this one not."""
    node = build.broadcast_to(cast_node(value, aval.dtype), aval.shape)
    array = execute([node])[0]
    return array.__copy__() if array is value else array


def new_ref(x: Any, *, memory_space: Any = None, kind: str | None = None) -> Ref:
    """A Ref that begins with the contents of `x` (an array or a number).

    memory_space, kind   accepted for compatibility: a Ref lives where its contents do, and every kind of use is allowed

    >>> r = new_ref(fnp.zeros(3))
    >>> r[1] += 2
    >>> r[...]
    Array([0., 2., 0.], dtype=float32)
    """
    t = lift(x)
    aval = Aval(t.node.dtype, t.shape)
    stack = stages()
    if not stack:
        return Ref(aval, _own(x, aval))
    return ref_over(t.node)


def empty_ref(like: Any, memory_space: Any = None) -> Ref:
    """A Ref of the shape and dtype of `like` (an array or ShapeDtypeStruct), whose contents are yet to be written.

    They are zeros until then.

    >>> r = empty_ref(ShapeDtypeStruct((2,), "float32"))
    >>> r[...] = 3.0
    >>> r[...]
    Array([3., 3.], dtype=float32)
    """
    aval = aval_of(like)
    return new_ref(Tracer(build.const(0, aval.dtype, aval.shape)))


def free_ref(ref: Ref) -> None:
    """End a Ref whose contents are not needed any more; raises OrderingError if it has ended before.

    >>> free_ref(new_ref(1.0))
    """
    freeze(ref)


def _need_ref(x: Any, what: str) -> None:
    if not isinstance(x, Ref):
        raise ArgumentError(f"{what} takes a Ref, as new_ref makes it, got {describe(x)}")


def freeze(ref: Ref) -> Any:
    """The final contents; the Ref cannot be used afterwards.

    >>> r = new_ref(fnp.zeros(2))
    >>> r[0] = 5.0
    >>> freeze(r)
    Array([5., 0.], dtype=float32)
    """
    _need_ref(ref, "freeze")
    value = ref.get()
    ref._frozen = True
    return value


def swap(ref: Ref, index: Any, value: Any) -> Any:
    """Write `value` at `index` of a Ref and return what was there before.

    >>> r = new_ref(fnp.array([1.0, 2.0]))
    >>> swap(r, 0, 9.0), r[0]
    (Array(1., dtype=float32), Array(9., dtype=float32))
    """
    _need_ref(ref, "swap")
    return ref.swap(index, value)


def touched(stage: Stage) -> list[tuple[Ref, Version]]:
    """The outer Refs that a stage has read or written, in order of first touch."""
    return [(r, v) for r, v in stage.refs.items() if v.entry is not None]


# ---- Refs in pytrees
class Held:
    """Stands in a pytree for a Ref (or whatever `what` is): a part of its structure, and no leaf."""

    __slots__ = ("what",)

    def __init__(self, what: Any) -> None:
        self.what = what


tree.register_constant(Held, lambda h: h.what, Held)


def hide_refs(x: Any, what: Callable[[Ref], Any] = lambda ref: ref) -> Any:
    """The pytree `x`, Refs exchanged for what holds `what` of them."""
    if not any(isinstance(leaf, Ref) for leaf in tree.leaves_of(x)):
        return x
    return tree.map_(lambda leaf: Held(what(leaf)) if isinstance(leaf, Ref) else leaf, x)


def show_refs(x: Any, ref: Callable[[Any], Ref] = lambda what: what) -> Any:
    """Undo `hide_refs`; `ref` gives the Ref for what was held."""
    return tree.map_(
        lambda leaf: ref(leaf.what) if isinstance(leaf, Held) else leaf, x, is_leaf=lambda leaf: isinstance(leaf, Held)
    )
