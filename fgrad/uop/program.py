"""Program: a closed function from values to values, and the inner programs that calls take as arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fgrad.uop.aval import Aval, Shape
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, open_param, slot_param, substitute, toposort, uop
from fgrad.uop.op import Mode, Op

Box = tuple[tuple[int | None, int, int], ...]


@dataclass(frozen=True, slots=True)
class Program:
    """`params` are the closed PARAMs in slot order, `outs` the results.

    `effects` lists (slot, out): the final version of the Ref that came in at `slot` is output number `out`.
    `spans` lists (out, slot): of that output only as many first elements of its first axis are wanted as the int64
    scalar at `slot` says; what is there beyond them does not matter.
    """

    params: tuple[UOp, ...]
    outs: tuple[UOp, ...]
    effects: tuple[tuple[int, int], ...] = ()
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def nodes(self) -> list[UOp]:
        """All nodes, sources first."""
        return toposort(self.outs)

    def inline(self, args: Sequence[UOp]) -> list[UOp]:
        """The outputs with `args` in place of the parameters."""
        return substitute(self.outs, dict(zip(self.params, args, strict=True)))

    @property
    def avals(self) -> tuple[tuple[DType, Shape], ...]:
        return tuple((o.dtype, o.shape) for o in self.outs)


def close(params: Sequence[UOp], outs: Sequence[UOp], effects: tuple[tuple[int, int], ...] = ()) -> Program:
    """Rename open `params` to slots. The outs must depend on nothing else that is open (see `closure`)."""
    slots = tuple([slot_param(i, p.dtype, p.shape) for i, p in enumerate(params)])
    return Program(slots, tuple(substitute(outs, dict(zip(params, slots, strict=True)))), effects)


def closure(params: Sequence[UOp], outs: Sequence[UOp]) -> tuple[list[UOp], Program]:
    """-> (captured outer nodes, Program over (*captured, *params)).

    Captured are the maximal nodes that depend on none of `params` but on an outer PARAM or a BUFFER: what is invariant
    is thereby computed outside. Of what is only repeated (EXPAND), the smaller value below is captured. Walks only
    nodes as young as `params`.
    """
    own = set(params)
    captured: dict[UOp, None] = {}
    since = min([p.born for p in params], default=0)
    for u in toposort(outs, since):
        if any(s in own for s in u.src):
            own.add(u)
            for s in u.src:
                if s not in own and s.born >= 0:
                    captured[s] = None
    for o in outs:
        if o not in own and o.born >= 0:
            captured[o] = None
    stems = {c: _stem(c) for c in captured}
    caps = list(dict.fromkeys(stems.values()))
    fresh = [open_param(c.dtype, c.shape, "captured") for c in caps]
    slots = tuple([slot_param(i, p.dtype, p.shape) for i, p in enumerate((*fresh, *params))])
    mapping = dict(zip((*caps, *params), slots, strict=True))
    for c, stem in stems.items():
        if c is not stem:
            mapping[c] = _regrown(c, stem, mapping[stem])
    return caps, Program(slots, tuple(substitute(outs, mapping, since)))


_THIN = (Op.EXPAND, Op.RESHAPE, Op.PERMUTE, Op.NEG, Op.CAST)


def _stem(u: UOp) -> UOp:
    """What `u` is the repetition of, or itself."""
    stem = q = u
    while q.op in _THIN:
        q = q.src[0]
        if q.born >= 0 and q.size < stem.size:
            stem = q
    return stem


def _regrown(u: UOp, stem: UOp, new: UOp) -> UOp:
    """`u` above `new` in place of `stem`."""
    above = []
    while u is not stem:
        above.append(u)
        u = u.src[0]
    for q in reversed(above):
        new = q.like(new)
    return new


@dataclass(frozen=True, slots=True)
class Update:
    """How UPDATE writes: `box` as SHRINK's arg (then no idx), or by index along the axis after `batch` leading axes.

    Sources: old, value, one scalar for every None in `box`, then idx if `indexed`, then gate if `gated`.
    With a box: value has the box's shape, gate too. Indexed: value is [batch.., idx.., rest..], gate is idx-shaped;
    an index out of bounds writes nothing; duplicates: the last wins for SET, all count otherwise.
    """

    mode: Mode
    box: Box | None = None
    indexed: bool = False
    gated: bool = False
    batch: int = 0


@dataclass(frozen=True, slots=True)
class Scan:
    """body: (*consts, *carry, *x) -> (*carry, *y), run `length` times;

    sources are (*consts, *init, *xs), xs[length, ..].
    """

    body: Program
    length: int
    consts: int
    carry: int
    xs: int
    reverse: bool = False

    @property
    def avals(self) -> tuple[tuple[DType, Shape], ...]:
        outs = self.body.outs
        stacked = tuple((o.dtype, (self.length, *o.shape)) for o in outs[self.carry :])
        return tuple((o.dtype, o.shape) for o in outs[: self.carry]) + stacked


@dataclass(frozen=True, slots=True)
class While:
    """cond: (*consts, *carry) -> (bool,); body: (*consts, *carry) -> (*carry,)."""

    cond: Program
    body: Program
    consts: int

    @property
    def avals(self) -> tuple[tuple[DType, Shape], ...]:
        return self.body.avals


@dataclass(frozen=True, slots=True)
class Cond:
    """branches[clip(index)](*operands); all branches have the same parameters and result avals."""

    branches: tuple[Program, ...]

    @property
    def avals(self) -> tuple[tuple[DType, Shape], ...]:
        return self.branches[0].avals


TANGENT = "custom_vjp tangent"  # the kind of a linear CALL that can only be transposed


def no_forward(name: str) -> str:
    """Why the TANGENT call of the custom_vjp function `name` has no value."""
    of = f": {name!r}" if name else ""
    return (
        f"can't apply forward-mode autodiff (jvp) to a custom_vjp function{of}. It only says how cotangents go back; "
        "use reverse mode (grad, vjp, jacrev), or define it with custom_jvp"
    )


@dataclass(frozen=True, slots=True)
class Call:
    """A program kept whole because its identity matters. `kind` says why: "checkpoint", "custom_jvp", "custom_vjp",
    "custom_vmap", "linear", "named", "kernel", TANGENT.

    `rule` is what the kind needs (a policy, the user's derivative functions), compared by identity.
    """

    body: Program
    kind: str
    name: str = ""
    rule: Any = None

    @property
    def avals(self) -> tuple[tuple[DType, Shape], ...]:
        return self.body.avals


@dataclass(frozen=True, slots=True)
class Host:
    """A Python function called with NumPy arrays: `callback(*arrays) -> sequence of arrays` of the declared avals.

    Ordered calls take a token (uint8 scalar) as first source and give one as first result. `vectorized` callbacks
    accept extra leading batch axes. `jvp`, `transpose`, `batch` are the derivative rules of library functions
    (factorizations); None refuses.
    """

    callback: Callable[..., Any]
    out_avals: tuple[Aval, ...]
    name: str = ""
    ordered: bool = False
    pure: bool = True
    vectorized: bool = False
    jvp: Callable[..., Any] | None = None
    transpose: Callable[..., Any] | None = None
    batch: Callable[..., Any] | None = None
    extra: tuple[Any, ...] = field(default=())

    @property
    def avals(self) -> tuple[tuple[DType, Shape], ...]:
        return tuple((a.dtype, a.shape) for a in self.out_avals)


def gets(u: UOp) -> list[UOp]:
    """All members of a tuple-valued node."""
    return [uop(Op.GET, (u,), i) for i in range(len(u.shape))]
