"""Sizes: which axes of a function's arguments may have any length in a range, and its programs for them.

A call with a new length traces the function for it, which is quick, and finds the program that was compiled for
another: both are one bounded program, see `fgrad.trace.bounded`. It is made from the traces at the upper bounds and at
some other sizes. Where the function does something else at some sizes (a branch on a length, a length of 0 or 1), these
have a bounded program of their own; where it does something else at every size, it cannot be compiled so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from fgrad.config import config
from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.hw.pool import class_bytes
from fgrad.run.array import DeviceArray, Sig, writable_view
from fgrad.run.jit import sizes_of
from fgrad.trace import tree
from fgrad.trace.alike import Unlike
from fgrad.trace.bounded import Bounded, bound
from fgrad.trace.nans import line_near
from fgrad.trace.record import recording
from fgrad.trace.staging import argument_names
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp
from fgrad.uop.program import Program


@dataclass(frozen=True, slots=True)
class Size:
    """The length of an axis that may differ from call to call: see `jit`, `dynamic_sizes`.

    name         axes under one name have one length
    lo, hi       smallest and largest length; memory is taken for the largest
    multiple_of  what lengths are multiples of

    Raises ShapeError for a range without a length in it.

    >>> Size("n", 1, 4096)
    Size(name='n', lo=1, hi=4096, multiple_of=1)
    """

    name: str
    lo: int
    hi: int
    multiple_of: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.lo <= self.hi or self.multiple_of < 1:
            raise ShapeError(f"{self!r}: there is no length in it; give 0 <= lo <= hi and multiple_of >= 1")
        if self.hi // self.multiple_of * self.multiple_of < self.lo:
            raise ShapeError(f"{self!r}: no multiple of {self.multiple_of} lies between lo and hi")

    @property
    def top(self) -> int:
        """The largest length."""
        return self.hi // self.multiple_of * self.multiple_of


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a leaf that has a dynamic size."""

    leaf: int
    axis: int
    size: Size
    name: str


class Reach(Enum):
    """How far a bounded program reaches."""

    ALL = "the whole range"
    POWER = "the next power of two"
    EXACT = "one length"


Lengths = dict[str, int]
Trace = Callable[[Lengths], Program]


class Sizes:
    """The dynamic sizes of one function: `spec` is what `jit` was given for `fun`.

    known    upper bounds, and the programs at them and at other sizes, by what else they depend on
    reason   why the last bounded program was made
    """

    def __init__(self, spec: Mapping[str, Mapping[int, Size]], fun: Callable[..., Any], name: str) -> None:
        self.fun = fun
        self.name = name
        self.spec = spec
        self.sizes: dict[str, Size] = {}
        self.reason = ""
        self.known: dict[Any, list[tuple[Lengths, Program, Program]]] = {}
        self.axes: dict[tree.TreeDef, list[tuple[int, str, Mapping[int, Size]]]] = {}
        if not isinstance(spec, Mapping) or not all(isinstance(axes, Mapping) for axes in spec.values()):
            raise ArgumentError(
                f'jit({name}): dynamic_sizes is {{argument: {{axis: Size("n", lo, hi)}}}}, got {spec!r}'
            )
        for argument, axes in spec.items():
            if not isinstance(argument, str):
                raise ArgumentError(
                    f"jit({name}): dynamic_sizes takes arguments by name, as in {{'x': ...}}, got {argument!r}"
                )
            for axis, size in axes.items():
                if not isinstance(axis, int) or not isinstance(size, Size):
                    raise ArgumentError(
                        f"jit({name}): dynamic_sizes[{argument!r}] takes {{axis: Size}}, got {{{axis!r}: {size!r}}}"
                    )
                if self.sizes.setdefault(size.name, size) != size:
                    raise ArgumentError(f"jit({name}): {size!r} and {self.sizes[size.name]!r} have one name")

    # ---- arguments
    def _leaves(self, in_tree: tree.TreeDef) -> list[tuple[int, str, Mapping[int, Size]]]:
        """(leaf, its name, its dynamic axes). An argument that is no array means all arrays in it."""
        known = self.axes.get(in_tree)
        if known is None:
            known, used = [], set()
            for i, name in enumerate(argument_names(self.fun, in_tree)):
                for argument, axes in self.spec.items():
                    if name == argument or (name.startswith(argument) and name[len(argument)] in "[."):
                        known.append((i, name, axes))
                        used.add(argument)
            unused = [argument for argument in self.spec if argument not in used]
            if unused:
                names = ", ".join(argument_names(self.fun, in_tree)) or "none"
                raise ArgumentError(
                    f"jit({self.name}): dynamic_sizes names {unused[0]!r}, but the arrays of this call are {names}"
                )
            self.axes[in_tree] = known
        return known

    def find(self, in_tree: tree.TreeDef, avals: Sequence[Aval]) -> tuple[list[Axis], Lengths]:
        """-> (the dynamic axes of these arguments, the length of each size).

        Raises ShapeError for a length out of range, and where axes of one name differ.
        """
        axes: list[Axis] = []
        lengths: Lengths = {}
        first: dict[str, str] = {}
        for i, name, row in self._leaves(in_tree):
            shape = avals[i].shape
            for axis, size in row.items():
                if not -len(shape) <= axis < len(shape):
                    raise ShapeError(
                        f"jit({self.name}): dynamic_sizes has axis {axis} of {name}, which has shape {shape}"
                    )
                n = shape[axis]
                where = f"axis {axis} of {name}"
                if n != lengths.setdefault(size.name, n):
                    raise ShapeError(
                        f"{self.name}: size {size.name!r} is {lengths[size.name]} in {first[size.name]}, "
                        f"but {n} in {where}"
                    )
                first.setdefault(size.name, where)
                if not size.lo <= n <= size.hi:
                    raise ShapeError(
                        f"{self.name}: {where} has length {n}, size {size.name!r} is from {size.lo} to {size.hi}"
                    )
                if n % size.multiple_of:
                    raise ShapeError(
                        f"{self.name}: {where} has length {n}, size {size.name!r} is a multiple of {size.multiple_of}"
                    )
                axes.append(Axis(i, axis % len(shape), size, where))
        return axes, lengths

    # ---- programs
    def program_for(
        self,
        program: Program,
        in_tree: tree.TreeDef,
        statics: Any,
        avals: Sequence[Aval],
        trace_at: Callable[[Sequence[Aval]], Program],
    ) -> tuple[Program, tuple[int, ...]]:
        """-> (the bounded program of `program`, the trace for `avals`; the words of its scalars).

        Checks that look at values want the program of each size as it is.
        """
        axes, now = self.find(in_tree, avals)
        if config.check & {"nan", "oob"}:
            return program, ()

        def avals_at(lengths: Lengths) -> list[Aval]:
            out = list(avals)
            for a in axes:
                shape = list(out[a.leaf].shape)
                shape[a.axis] = lengths[a.size.name]
                out[a.leaf] = out[a.leaf]._replace(shape=tuple(shape))
            return out

        tops = avals_at({name: size.top for name, size in self.sizes.items()})
        key = (in_tree, tuple(tops), statics, config.state)
        bounded = self._bounded(key, now, program, lambda lengths: trace_at(avals_at(lengths)))
        return bounded.program, bounded.words

    def with_room(self, sig: Sig, out: UOp) -> Sig:
        """`sig`, for arrays with room for all that the bounded program writes for `out`."""
        return roomy(sig, out.size * out.dtype.itemsize)

    def put_into_room(
        self, arrays: Sequence[DeviceArray], words: list[int], rooms: Sequence[tuple[int, int]]
    ) -> list[DeviceArray]:
        """Let `words` say where copies of arrays lie, which live as long as the result.

        rooms   (number of the array, bytes there must be)
        """
        copies = []
        for number, nbytes in rooms:
            x = arrays[number]
            sig = roomy(x.sig.key, nbytes)
            copies.append(DeviceArray(sig, sig.take()))
            copies[-1].device.sync()
            np.copyto(writable_view(copies[-1]), x.concrete())
            words[number] = copies[-1].addr
        return copies

    def _bounded(self, key: Any, now: Lengths, program: Program, trace: Trace) -> Bounded:
        """The bounded program of `program`, the trace for the lengths `now`; `trace` makes that for others.

        key   what the programs depend on beside the lengths

        Raises NotImplementedError where the function does something else at each size.
        """
        known = self.known.setdefault(key, [])
        for tops, top, near in known:
            if all(now[name] <= tops[name] for name in now):
                try:
                    return bound(top, near, program)
                except Unlike:
                    pass
        tried: list[Lengths] = [tops for tops, _, _ in known]
        for tops, others in self._bounds(now):
            if tops in tried:
                continue
            tried.append(tops)
            top = program if tops == now else self._traced(trace, tops)
            near = top if others == tops else self._traced(trace, others)
            try:
                made = bound(top, near, program)
            except Unlike:
                continue
            known.append((tops, top, near))
            self.reason = f"with {_text(now)} it does something else than with other sizes"
            return made
        raise note_user_line(NotImplementedError(self._refusal(now, trace)))

    def _bounds(self, now: Lengths) -> list[tuple[Lengths, Lengths]]:
        """Upper bounds to be tried, the largest first, and other lengths to compare them with.

        Lengths of 0 and 1 are tried as any other, then as fixed: NumPy's rules are others for them.
        """
        fixed = {name: n for name, n in now.items() if n < 2}
        out = []
        for reach in Reach:
            for kept in (dict[str, int](), fixed) if fixed else ({},):
                pairs = {
                    name: (n, n) if name in kept else _bound(self.sizes[name], n, reach, k)
                    for k, (name, n) in enumerate(now.items())
                }
                out.append(({m: top for m, (top, _) in pairs.items()}, {m: n for m, (_, n) in pairs.items()}))
        return out

    def _traced(self, trace: Trace, lengths: Lengths) -> Program:
        try:
            return trace(lengths)
        except Exception as error:
            error.add_note(f"  while {self.name} was traced for the dynamic sizes {_text(lengths)}")
            raise

    def _refusal(self, now: Lengths, trace: Trace) -> str:
        """What differs between the programs at these lengths and at close ones."""
        tops, others = self._bounds(now)[-1]
        with recording():
            programs = [trace(tops), trace(others), trace(now)]
            try:
                bound(*programs)
            except Unlike as e:
                why = e.why
                line = next((line for u in e.where for line in [line_near(u)[0]] if line), "")
            else:
                why, line = "it depends on more than the sizes", ""
        return (
            f"{self.name} with {_text(now)} does something else than with {_text(others)}, so that no one program "
            f"can be compiled for dynamic_sizes: {why}{f', made at {line}' if line else ''}. A Python loop over a "
            "length is a fgrad.lax.scan or fori_loop instead; or leave this size out of dynamic_sizes"
        )


def _bound(size: Size, n: int, reach: Reach, k: int) -> tuple[int, int]:
    """An upper bound for the length `n`, and another length: the `k`th size is another one each time."""
    step, least = size.multiple_of, max(size.lo, 2)
    power = 1 << max(n - 1, 0).bit_length()
    top = {Reach.ALL: size.top, Reach.POWER: min(size.top, -(-power // step) * step), Reach.EXACT: n}[reach]
    # far away, as two lengths that are close have one half or one smaller power of two
    far = top * 5 // 8 // step * step if reach is not Reach.EXACT else top - step
    for other in (far - k * step, top - step):
        if other >= least:
            return top, other
    return top, top


def _text(lengths: Lengths) -> str:
    return ", ".join([f"{name} = {n}" for name, n in lengths.items()])


class Roomy(Sig):
    """The Sig of arrays in blocks of at least `nbytes`, which may be more than their elements need."""

    __slots__ = ()

    def __init__(self, plain: Sig, nbytes: int) -> None:
        super().__init__(plain.aval, plain.device, plain.key)
        self.nbytes = nbytes
        self.free = plain.device.pool.free_list(nbytes)
        self.put = self.free.append


_roomy: dict[tuple[Sig, int], Roomy] = {}


def roomy(plain: Sig, nbytes: int) -> Sig:
    """`plain`, or the Sig of the same arrays with room for `nbytes`."""
    room = class_bytes(nbytes)
    if room <= class_bytes(plain.nbytes):
        return plain
    key = (plain, room)
    return _roomy.get(key) or _roomy.setdefault(key, Roomy(plain, room))


sizes_of.append(Sizes)
