"""Which nodes are legal at which stage of a program's life; checked after every pass.

TRACED is the language of closed programs between the user's function and lowering: no STORE, no
LOAD, only its own parameters. RAW is TRACED with memory: users' AFTER/STORE graphs and the bodies
of user kernels. What inference checks when a node is made is not checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fgrad.errors import SpecError
from fgrad.uop import dtype as dt
from fgrad.uop.cache import remember
from fgrad.uop.node import UOp, toposort
from fgrad.uop.op import BINARY, CALLS, MOVEMENT, REDUCERS, UNARY, Op
from fgrad.uop.program import Call, Cond, Host, Program, Scan, Update, While
from fgrad.uop.show import aval_text, listing_around


@dataclass(frozen=True, slots=True)
class Spec:
    """A stage: its name, and the ops that may not stand in it, each with the reason."""

    name: str
    forbidden: tuple[tuple[Op, str], ...] = ()


TRACED = Spec(
    "TRACED",
    (
        (Op.STORE, "writes are versions (UPDATE) in a traced program"),
        (Op.LOAD, "reads of memory are versions in a traced program"),
    ),
)
RAW = Spec("RAW")


@remember(4096)
def verify(program: Program, spec: Spec = TRACED) -> None:
    """Check a closed program, and the programs inside it.

    Raises SpecError with the rule, the node, and the listing around it.
    """
    for i, p in enumerate(program.params):
        if p.op is not Op.PARAM or p.arg[0] != i:
            raise SpecError(f"{spec.name}: parameter {i} is {p} {p.arg}, not the PARAM of slot {i}")
    for slot, out in program.effects:
        if not (0 <= slot < len(program.params) and 0 <= out < len(program.outs)):
            raise SpecError(f"{spec.name}: effect ({slot}, {out}) is out of range")
        if not _same_aval(program.params[slot], program.outs[out]):
            have, want = aval_text(program.outs[out]), aval_text(program.params[slot])
            raise SpecError(f"{spec.name}: the final version of slot {slot} is {have}, not {want}")
    for out, slot in program.spans:
        if not (0 <= slot < len(program.params) and 0 <= out < len(program.outs)):
            raise SpecError(f"{spec.name}: span ({out}, {slot}) is out of range")
        length = program.params[slot]
        if length.dtype is not dt.int64 or length.shape or not program.outs[out].ndim:
            raise SpecError(f"{spec.name}: span ({out}, {slot}) needs an int64 scalar and an output with an axis")
    own = dict.fromkeys(program.params)
    nodes = _verify_nodes(program.outs, spec)
    for u in nodes:
        if u.op is Op.PARAM and u not in own:
            open_ = isinstance(u.arg[0], tuple)
            rule = "an open PARAM is left" if open_ else "the PARAM's slot is not a parameter"
            raise _error(spec, program.outs, u, f"{rule} in a closed program")
    for o in program.outs:
        if isinstance(o.dtype, tuple):
            raise _error(spec, program.outs, o, "an output is one value: GET it from the tuple")
        if o.dtype is dt.void and spec is TRACED:
            raise _error(spec, program.outs, o, "an output has a value")


def verify_nodes(outs: Sequence[UOp], spec: Spec = RAW) -> None:
    """Check a graph that need not be closed. Raises SpecError like `verify`."""
    _verify_nodes(outs, spec)


def _verify_nodes(outs: Sequence[UOp], spec: Spec) -> list[UOp]:
    forbidden = dict(spec.forbidden)
    nodes = toposort(outs)
    for u in nodes:
        why = forbidden.get(u.op)
        if why is None:
            rule = _RULES.get(u.op)
            why = rule(u) if rule is not None else None
        if why is None and u.op not in (Op.GET, Op.AFTER):
            for i, s in enumerate(u.src):
                if isinstance(s.dtype, tuple):
                    why = f"source {i} is a tuple; GET one of its members"
                elif s.dtype is dt.void:
                    why = f"source {i} is a {s.op.name}, which has no value; AFTER may depend on it"
        if why is not None:
            raise _error(spec, outs, u, why)
        for p, inner in _programs_of(u, spec):
            verify(p, inner)
    return nodes


def _programs_of(u: UOp, spec: Spec) -> list[tuple[Program, Spec]]:
    match u.arg:
        case Call():
            return [(u.arg.body, RAW if u.arg.kind == "kernel" else spec)]
        case Scan():
            return [(u.arg.body, spec)]
        case While():
            return [(u.arg.cond, spec), (u.arg.body, spec)]
        case Cond():
            return [(p, spec) for p in u.arg.branches]
    return []


def _error(spec: Spec, outs: Sequence[UOp], u: UOp, why: str) -> SpecError:
    return SpecError(f"{spec.name}: {u.op.name}: {why}\n{listing_around(outs, u)}")


# ---- rules: a node -> what is wrong with it, or None
Rule = Callable[[UOp], str | None]
_RULES: dict[Op, Rule] = {}


def _rule(*ops: Op) -> Callable[[Rule], Rule]:
    def enter(f: Rule) -> Rule:
        for op in ops:
            _RULES[op] = f
        return f

    return enter


def _sources(count: int) -> Rule:
    def check(u: UOp) -> str | None:
        return None if len(u.src) == count else f"needs {count} sources, has {len(u.src)}"

    return check


_rule(Op.CONST, Op.PARAM, Op.BUFFER, Op.IOTA, Op.VARIABLE)(_sources(0))
_rule(*UNARY, *[op for op in MOVEMENT if op is not Op.SHRINK])(_sources(1))
_rule(Op.COPY, Op.COLLECTIVE, Op.LOAD)(_sources(1))
_rule(*BINARY, Op.GATHER)(_sources(2))
_rule(Op.WHERE)(_sources(3))
_rule(Op.THREEFRY)(_sources(4))


def _ascending(axes: Sequence[int], ndim: int) -> bool:
    return all(a < c for a, c in zip(axes, axes[1:], strict=False)) and all(
        0 <= a < ndim for a in axes
    )


@_rule(Op.EXPAND)
def _(u: UOp) -> str | None:
    ok = len(u.src) == 1 and _ascending([a for a, _ in u.arg], u.ndim)
    return None if ok else f"axes {u.arg} are not ascending positions of the result"


@_rule(Op.FLIP)
def _(u: UOp) -> str | None:
    return None if _ascending(u.arg, u.ndim) else f"axes {u.arg} are not ascending"


@_rule(Op.REDUCE)
def _(u: UOp) -> str | None:
    op, axes = u.arg
    if op not in REDUCERS:
        return f"cannot combine by {op}"
    return None if _ascending(axes, u.src[0].ndim) else f"axes {axes} are not ascending axes of x"


@_rule(Op.PREFIX)
def _(u: UOp) -> str | None:
    op, axis, _ = u.arg
    if op not in (Op.ADD, Op.MUL, Op.MAX, Op.MIN):
        return f"cannot run by {op}"
    return None if 0 <= axis < u.ndim else f"there is no axis {axis}"


@_rule(Op.SORT)
def _(u: UOp) -> str | None:
    return None if 0 <= u.arg < u.src[0].ndim else f"there is no axis {u.arg}"


@_rule(Op.SHRINK, Op.UPDATE)
def _(u: UOp) -> str | None:
    how: Any = u.arg
    starts = u.src[1:]
    if u.op is Op.UPDATE:
        if not isinstance(how, Update):
            return f"its arg is {how!r}, no Update"
        if (how.box is None) != how.indexed:
            return "writes either a box or by index"
        if how.indexed and not u.src[2].dtype.is_int:
            return f"indices are integers, not {u.src[2].dtype}"
        starts = u.src[2 : len(u.src) - how.gated] if how.box is not None else ()
    for s in starts:
        if s.shape != () or s.dtype is not dt.int64:
            return f"a computed start is an int64 scalar, not {aval_text(s)}"
    return None


@_rule(Op.GET)
def _(u: UOp) -> str | None:
    x = u.src[0]
    if not isinstance(x.dtype, tuple):
        return f"takes a tuple, not {aval_text(x)}"
    return None if 0 <= u.arg < len(x.shape) else f"the tuple has {len(x.shape)} members"


@_rule(Op.STORE)
def _(u: UOp) -> str | None:
    return None if len(u.src) in (2, 3) else "takes a view, a value, and maybe a gate"


def _same_aval(a: UOp, c: UOp) -> bool:
    return a.dtype is c.dtype and a.shape == c.shape


def _mismatch(what: str, have: Sequence[UOp], want: Sequence[UOp]) -> str | None:
    if len(have) != len(want):
        return f"{what}: {len(have)} given, {len(want)} taken"
    for i, (a, c) in enumerate(zip(have, want, strict=True)):
        if not _same_aval(a, c):
            return f"{what} {i} is {aval_text(a)}, taken as {aval_text(c)}"
    return None


@_rule(Op.CALL)
def _(u: UOp) -> str | None:
    return _mismatch("argument", u.src, u.arg.body.params)


@_rule(Op.COND)
def _(u: UOp) -> str | None:
    first: Program = u.arg.branches[0]
    for p in u.arg.branches:
        wrong = _mismatch("operand", u.src[1:], p.params) or _mismatch(
            "branch result", p.outs, first.outs
        )
        if wrong:
            return wrong
    return None


@_rule(Op.WHILE)
def _(u: UOp) -> str | None:
    loop: While = u.arg
    test = loop.cond.outs
    if len(test) != 1 or test[0].dtype is not dt.bool_ or test[0].shape != ():
        return "the condition is one bool scalar"
    return (
        _mismatch("operand", u.src, loop.cond.params)
        or _mismatch("operand", u.src, loop.body.params)
        or _mismatch("carry", loop.body.outs, loop.body.params[loop.consts :])
    )


@_rule(Op.SCAN)
def _(u: UOp) -> str | None:
    scan: Scan = u.arg
    params, outs = scan.body.params, scan.body.outs
    first_x = scan.consts + scan.carry
    if len(u.src) != first_x + scan.xs or len(params) != len(u.src):
        return f"{len(u.src)} sources for {len(params)} parameters of the body"
    for x, p in zip(u.src[first_x:], params[first_x:], strict=True):
        if x.dtype is not p.dtype or x.shape != (scan.length, *p.shape):
            return f"{aval_text(x)} is not {scan.length} steps of {aval_text(p)}"
    return _mismatch("operand", u.src[:first_x], params[:first_x]) or _mismatch(
        "carry", outs[: scan.carry], params[scan.consts : first_x]
    )


@_rule(Op.HOST)
def _(u: UOp) -> str | None:
    host: Host = u.arg
    if not host.ordered:
        return None
    tokens = [*[(s.dtype, s.shape) for s in u.src[:1]], *[(a[0], a[1]) for a in host.out_avals[:1]]]
    return None if tokens == [(dt.uint8, ())] * 2 else "an ordered call takes and gives a token"


assert all(op in _RULES for op in CALLS)
