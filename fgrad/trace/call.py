"""Rows of CALL in every table.

A CALL keeps a program whole because its identity matters. What its `rule` must be, by kind:

    checkpoint   None, or `rule(node) -> bool`: which values inside are kept, not computed again
    custom_jvp   `rule.jvp(primals, tangents) -> (outs, tangents)`; tangents may be None
    custom_vjp   `rule.fwd(primals, moves) -> (outs, residuals, back)`, moves: which primals have
                 tangents; `back.bwd(residuals, cts) -> cts of the primals`, cts of all outputs; they
                 may be None
    linear       a function that is linear in some arguments: `rule.jvp(call, tangents) -> tangents`,
                 `rule.transpose(call, cts, linear) -> cts of the arguments`,
                 `rule.batch(args, batched, at) -> (outs, batched)`, where call is the node
    named        a value and its name (of the CALL), which policies of checkpoint ask for
    custom_vmap  `rule.batch(call, args, batched, size) -> (outs, batched)`
    kernel       where it has them: `rule.grad(args, outs, cts) -> cts of the args`,
                 `rule.batch(call, args, batched, size) -> (outs, batched)`

All of them take and give nodes. See `host.py` for HOST.

A custom function that uses Refs takes, last, the contents of its `rule.refs` Refs and what stands for each of them
in the backward pass (`Reverse`); it gives both back, last too. The cotangent of the latter is what the Ref is in the
backward pass: it passes by where nothing is differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from fgrad.errors import ArgumentError, DtypeError, ShapeError, VmapAxisError
from fgrad.trace.backward import pull_masked
from fgrad.trace.host import checked, float_tangents, one_by_one
from fgrad.trace.interpret import (
    batching,
    jvp,
    jvp_program,
    marked,
    memo,
    split,
    split_rules,
    transpose,
)
from fgrad.trace.maybe import Maybe, deal, instantiate, merge, pick, present
from fgrad.trace.residuals import linear_reads
from fgrad.trace.singular import Singular
from fgrad.trace.strong import Cotangent
from fgrad.trace.widen import BATCHED_STORE, Batching, align, batch_program, lead
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.build import reduce_
from fgrad.uop.node import UOp, open_param, substitute, toposort, uop
from fgrad.uop.op import Op
from fgrad.uop.program import TANGENT, Call, Host, Program, close, closure, gets, no_forward

Moved = tuple[list[UOp], list[Maybe]]


def _name(call: Call) -> str:
    return f" {call.name!r}" if call.name else ""


# ---- jvp
@jvp(Op.CALL)
def _(u: UOp, d: list[Maybe]) -> Moved:
    call: Call = u.arg
    if call.kind == "checkpoint":
        return _checkpoint_jvp(u, d)
    if call.kind == "custom_vmap":
        return _custom_vmap_jvp(u, d)
    if call.kind == "named":
        return gets(u), float_tangents(d)
    if call.kind == "linear":
        members = gets(u)
        what = f"the jvp rule of{_name(call)}"
        return members, checked(call.rule.jvp(u, d), members, what)
    n = refs_of(call)
    plain = len(u.src) - n
    if n and all(t is None for t in d[:plain]):  # only what Refs are in the backward pass moves
        members = gets(u)
        return members, [*[None] * (len(members) - n), *d[plain:]]
    if call.kind in ("custom_jvp", "custom_vjp"):
        _refuse_hidden(call, d)
    if call.kind == "custom_jvp":
        outs, tangents = call.rule.jvp(list(u.src), d)
        members = gets(u)
        what = f"the jvp rule of{_name(call) or ' a custom_jvp function'}"
        return checked(outs, members, what), float_tangents(
            checked(tangents, members, what + " (tangents)")
        )
    if call.kind == "custom_vjp":
        outs, residuals, back = call.rule.fwd(list(u.src), [t is not None for t in d])
        outs = checked(
            outs, gets(u), f"the forward rule of{_name(call) or ' a custom_vjp function'}"
        )
        return outs, _reverse_tangents(outs, back, call, list(residuals), u.src, d)
    if call.kind == "kernel":
        members = gets(u)
        if getattr(call.rule, "grad", None) is None:
            if not any(m.dtype.is_inexact for m in members):
                return members, [None] * len(members)
            raise NotImplementedError(
                f"kernel{_name(call)} has no derivative; give kernel_call a grad_fn"
            )
        rule = _KernelRule(call.rule, len(u.src))
        floats = [m.dtype.is_inexact for m in members]
        residuals = [*u.src, *members]
        return members, _opaque_tangents(members, floats, rule, call.name, residuals, u.src, d)
    raise NotImplementedError(
        f"the second forward derivative of the custom_vjp function{_name(call)}: "
        "it only says how cotangents go back; use custom_jvp"
    )


def _refuse_hidden(call: Call, d: list[Maybe]) -> None:
    """A value that a custom function closes over is no argument of its rule: its derivative would be lost."""
    if any([t is not None for t in d[: len(getattr(call.rule, "captured", ()))]]):
        raise ArgumentError(
            f"the {call.kind} function{_name(call)} closes over a value that is differentiated, or has it as one of "
            "nondiff_argnums: its rule says nothing of that derivative; make the value an argument that the rule is "
            "given, or take lax.stop_gradient of it"
        )


@dataclass(frozen=True, slots=True)
class _KernelRule:
    """A kernel's gradient as a custom_vjp: the residuals are its arguments and results."""

    rule: Any
    args: int

    def bwd(self, residuals: list[UOp], cts: list[Maybe]) -> Sequence[Maybe]:
        got: Sequence[Maybe] = self.rule.grad(residuals[: self.args], residuals[self.args :], cts)
        return got


def refs_of(call: Call) -> int:
    """How many Refs a custom function uses."""
    return int(getattr(call.rule, "refs", 0))


@dataclass(frozen=True, slots=True)
class _Tangent:
    """What the linear CALL of a custom_vjp knows.

    The rule, its residuals, which arguments and outs move, and how many Refs it uses.
    """

    rule: Any
    residuals: int
    args: tuple[tuple[dt.DType, tuple[int, ...]], ...]
    moves: tuple[bool, ...]
    outs: tuple[bool, ...]
    refs: int = 0


def _reverse_tangents(
    outs: list[UOp], back: Any, call: Call, residuals: list[UOp], args: Sequence[UOp], d: list[Maybe]
) -> list[Maybe]:
    """Tangents of the outs of a custom_vjp: those of Refs that its forward rule left alone are what they were."""
    n = refs_of(call)
    plain, first = len(outs) - 2 * n, len(args) - 2 * n
    takes = [o.dtype.is_inexact for o in outs]
    kept: dict[int, Maybe] = {}
    for k in range(n):
        if outs[plain + k] is args[first + k]:
            takes[plain + k] = False
            kept[plain + k] = d[first + k]
        takes[plain + n + k] = d[first + n + k] is not None
    tangents = _opaque_tangents(outs, takes, back, call.name, residuals, args, d, n)
    return [kept.get(k, t) for k, t in enumerate(tangents)]


def _opaque_tangents(
    outs: list[UOp],
    takes: list[bool],
    rule: Any,
    name: str,
    residuals: list[UOp],
    args: Sequence[UOp],
    d: list[Maybe],
    refs: int = 0,
) -> list[Maybe]:
    """Tangents of the outs in `takes`: a CALL that transposes by `rule.bwd`, and raises when run forward."""
    like = pick(outs, takes)
    moving = present(d)
    avals = tuple([Aval(o.dtype, o.shape) for o in like])
    ps = [open_param(x.dtype, x.shape, "tangent") for x in (*residuals, *moving)]
    body = close(
        ps, gets(uop(Op.HOST, tuple(ps), Host(_forward_mode(name), avals, name, vectorized=True)))
    )  # only a shape: the lowering refuses to run it
    known = tuple([(a.dtype, a.shape) for a in args])
    moves = tuple([t is not None for t in d])
    call = Call(
        body, TANGENT, name, _Tangent(rule, len(residuals), known, moves, tuple(takes), refs)
    )
    return deal(gets(uop(Op.CALL, (*residuals, *moving), call)), takes)


@memo
def _forward_mode(name: str) -> Any:
    def forward(*_: Any) -> NoReturn:
        error = ArgumentError(no_forward(name))
        error.by_program = True
        raise error

    return forward


def _checkpoint_jvp(u: UOp, d: list[Maybe]) -> Moved:
    call: Call = u.arg
    body, moving = jvp_program(call.body, tuple([t is not None for t in d]))
    got = gets(uop(Op.CALL, (*u.src, *present(d)), replace(call, body=body)))
    n = len(call.body.outs)
    return got[:n], deal(got[n:], moving)


def _custom_vmap_jvp(u: UOp, d: list[Maybe]) -> Moved:
    call: Call = u.arg
    moves = tuple([t is not None for t in d])
    body, moving = jvp_program(call.body, moves)
    new = replace(call, body=body, rule=_BatchOfTangents(call, moves, tuple(moving)))
    got = gets(uop(Op.CALL, (*u.src, *present(d)), new))
    n = len(call.body.outs)
    return got[:n], deal(got[n:], moving)


@dataclass(frozen=True, slots=True)
class _BatchOfTangents:
    """How the forward derivative of a custom_vmap `call` is batched: by the derivative of its rule.

    A tangent and its primal are batched together.
    """

    call: Call
    moves: tuple[bool, ...]  # of the arguments
    moving: tuple[bool, ...]  # of the outs

    def batch(
        self, call: Call, src: Sequence[UOp], flags: Sequence[bool], size: int
    ) -> tuple[list[UOp], list[bool]]:
        n = len(self.moves)
        tangent_flags = deal(flags[n:], self.moves)
        both = [f or bool(t) for f, t in zip(flags[:n], tangent_flags, strict=True)]
        args = [
            lead(x, size) if b and not f else x
            for x, f, b in zip(src[:n], flags[:n], both, strict=True)
        ]
        tangents = [
            lead(x, size) if b and not f else x
            for x, f, b in zip(src[n:], flags[n:], pick(both, self.moves), strict=True)
        ]
        ps = [open_param(x.dtype, x.shape, "batched") for x in args]
        outs, out_flags = self.call.rule.batch(self.call, ps, both, size)
        captured, program = closure(ps, outs)
        known = (False,) * len(captured)
        body, moving = jvp_program(program, (*known, *self.moves))
        got = body.inline([*captured, *args, *tangents])
        found = deal(got[len(outs) :], moving)
        wanted = [
            (instantiate(t, o), f)
            for t, o, f, w in zip(found, outs, out_flags, self.moving, strict=True)
            if w
        ]
        return [*got[: len(outs)], *[t for t, _ in wanted]], [*out_flags, *[f for _, f in wanted]]


# ---- split
@split_rules(Op.CALL)
def _(u: UOp, flags: list[bool]) -> tuple[list[UOp], list[bool]] | None:
    """A checkpoint keeps its inputs, and what its policy says.

    Custom functions that nobody derived are what they do.
    """
    call: Call = u.arg
    if call.kind in (TANGENT, "linear"):
        return None
    if call.kind in ("custom_jvp", "custom_vjp", "custom_vmap", "named"):
        outs, lin = split(call.body.inline(u.src), pick(u.src, flags))
        return outs, [o in lin for o in outs]
    if call.kind != "checkpoint":
        raise NotImplementedError(
            f"cannot transpose through the {call.kind} call{_name(call)}; take its derivative first"
        )
    primal, linear, linear_outs, kept = _split_checkpoint(call, tuple(flags))
    plain, moving = pick(u.src, flags, False), pick(u.src, flags)
    if primal is None:
        return gets(uop(Op.CALL, u.src, replace(call, body=linear))), list(linear_outs)
    got = gets(uop(Op.CALL, tuple(plain), replace(call, body=primal))) if primal.outs else []
    n = len(got) - kept
    parts = gets(uop(Op.CALL, (*plain, *got[n:], *moving), replace(call, body=linear)))
    return merge(linear_outs, parts, got[:n]), list(linear_outs)


@memo
def _split_checkpoint(
    call: Call, flags: tuple[bool, ...]
) -> tuple[Program | None, Program, tuple[bool, ...], int]:
    ps = call.body.params
    outs, lin = split(call.body.outs, pick(ps, flags))
    linear_outs = tuple([o in lin for o in outs])
    if all(linear_outs):
        return None, close(ps, outs), linear_outs, 0
    plain, moving = pick(ps, flags, False), pick(ps, flags)
    roots = pick(outs, linear_outs)
    keep: list[UOp] = []
    if call.rule is not None:
        primal_part = toposort(linear_reads(toposort(roots), lin, roots))
        keep = [r for r in primal_part if r.src and isinstance(r.dtype, dt.DType) and call.rule(r)]
    fresh = [open_param(r.dtype, r.shape, "kept") for r in keep]
    linear = close(
        (*plain, *fresh, *moving), substitute(roots, dict(zip(keep, fresh, strict=True)))
    )
    primal = close(plain, [*pick(outs, linear_outs, False), *keep])
    return primal, linear, linear_outs, len(keep)


# ---- transpose
@transpose(Op.CALL)
def _(u: UOp, cts: list[Cotangent | None], linear: list[bool]) -> list[Cotangent | None]:
    call: Call = u.arg
    if call.kind == TANGENT:
        return _custom_transpose(u, cts, linear)
    if call.kind == "linear":
        given = [None if c is None else c[0] for c in cts]
        back = checked(call.rule.transpose(u, given, linear), u.src, f"the transpose of{_name(call)}")
        return [None if p is None else (p, None) for p in back]
    ct = next(c[0] for c in cts if c is not None)
    ps = call.body.params
    moving = [open_param(p.dtype, p.shape, "linear") for p in pick(ps, linear)]
    # the recomputation takes its inputs after the cotangent: another node, which cannot run before
    # the backward pass
    waiting = [uop(Op.AFTER, (a, ct)) for a in pick(u.src, linear, False)]
    args = merge(linear, moving, waiting)
    outs = call.body.inline(args)
    lin = marked(outs, moving)
    asks = Singular()
    singular = [w for w, a in zip(waiting, pick(u.src, linear, False), strict=True) if asks(a)]
    got = pull_masked(outs, cts, moving, lin, singular)
    it = iter(got)
    return [next(it) if m else None for m in linear]


def _custom_transpose(
    u: UOp, cts: list[Cotangent | None], linear: list[bool]
) -> list[Cotangent | None]:
    call: Call = u.arg
    known: _Tangent = call.rule
    if any(linear[: known.residuals]):
        raise NotImplementedError(
            f"the residuals of the custom_vjp function{_name(call)} depend on its tangents"
        )
    at = iter(cts)
    given = [c[0] if t and (c := next(at)) is not None else None for t in known.outs]
    n = known.refs
    if n and all(c is None for c in given[:-n]):  # nothing is differentiated here: Refs stay what they are
        passed = [*[None] * (len(known.args) - n), *given[-n:]]
        return [*[None] * known.residuals, *[None if p is None else (p, None) for p in pick(passed, known.moves)]]
    got = list(known.rule.bwd(list(u.src[: known.residuals]), given))
    if len(got) != len(known.args):
        raise TypeError(
            f"the backward rule of{_name(call) or ' a custom_vjp function'} must give one "
            f"cotangent for each of the {len(known.args)} arguments, gave {len(got)}"
        )
    _check_cotangents(got, known, call)
    parts = pick(got, known.moves)
    given_back: list[Cotangent | None] = [None] * known.residuals
    return given_back + [None if p is None else (p, None) for p in parts]


def _check_cotangents(got: Sequence[Maybe], known: _Tangent, call: Call) -> None:
    first = getattr(known.rule, "captured", 0)  # so many come before the user's arguments
    for i, (g, (dtype, shape)) in enumerate(zip(got, known.args, strict=True)):
        if g is None or (g.shape == shape and g.dtype is dtype) or not dtype.is_inexact:
            continue
        kind = DtypeError if g.shape == shape else ShapeError
        raise kind(
            f"the backward rule of{_name(call)} must return cotangents like its arguments, but as "
            f"output[{i - first}] the bwd rule produced an output of type {Aval(g.dtype, g.shape)} "
            f"for an argument of type {Aval(dtype, shape)}"
        )


# ---- batch
@batching(Op.CALL)
def _(u: UOp, src: list[UOp], flags: list[bool], at: Batching) -> tuple[list[UOp], list[bool]]:
    call: Call = u.arg
    if call.kind in ("kernel", "custom_vmap"):
        rule = getattr(call.rule, "batch", None)
        if rule is None:
            return one_by_one(u, src, flags, at)
        outs, out_flags = rule(call, src, flags, at.size)
        return list(outs), list(out_flags)
    if call.kind == "linear":
        outs, out_flags = call.rule.batch(src, flags, at)
        return list(outs), list(out_flags)
    if call.kind in ("checkpoint", "named"):
        body, out = batch_program(call.body, at, tuple(flags))
        return gets(uop(Op.CALL, tuple(src), replace(call, body=body))), list(out)
    if call.kind == TANGENT:
        known: _Tangent = call.rule
        src, flags = align(src, flags, at.size), [True] * len(src)
        arg_flags = tuple([True] * len(known.args))
        lifted = tuple([(d, (at.size, *shape)) for d, shape in known.args])
        rule = _BatchedBack(known.rule, arg_flags, at, known.refs)
        body, out = batch_program(call.body, at, tuple(flags), (True,) * len(call.body.outs))
        new = replace(call, body=body, rule=replace(known, rule=rule, args=lifted))
        return gets(uop(Op.CALL, tuple(src), new)), list(out)
    hidden = 2 * refs_of(call)
    force = (*(True,) * (len(call.body.outs) - hidden), *(False,) * hidden)
    body, out = batch_program(call.body, at, tuple(flags), force)
    rule = BatchedRule(call.rule, tuple(flags), out, at, refs_of(call))
    return gets(uop(Op.CALL, tuple(src), replace(call, body=body, rule=rule))), list(out)


def _members(values: Sequence[UOp], flags: Sequence[bool]) -> list[UOp]:
    """Parameters for one member of each."""
    return [open_param(v.dtype, v.shape[1:] if f else v.shape, "member")
            for v, f in zip(values, flags, strict=True)]  # fmt: skip


def _batched(
    ps: Sequence[UOp], outs: Sequence[UOp], values: Sequence[UOp], flags: Sequence[bool], at: Batching
) -> tuple[list[UOp], list[bool]]:
    """`outs`, staged for the members `ps`, of `values` -> (values, which of them are batched)."""
    captured, program = closure(ps, outs)
    body, out = batch_program(program, at, (*[False] * len(captured), *flags))
    return body.inline([*captured, *values]), list(out)


def _made(x: UOp, is_batched: bool, wanted: bool, size: int) -> UOp:
    """`x`, batched if that is wanted. Only what is in a Ref need not be."""
    if is_batched and not wanted:
        raise VmapAxisError(BATCHED_STORE)
    return lead(x, size) if wanted and not is_batched else x


@dataclass(frozen=True, slots=True)
class BatchedRule:
    """A custom rule under vmap: staged for one member, then batched. All residuals are batched."""

    rule: Any
    flags: tuple[bool, ...]  # of the arguments
    outs: tuple[bool, ...]  # of the results
    at: Batching
    refs: int

    def jvp(
        self, primals: Sequence[UOp], tangents: Sequence[Maybe]
    ) -> tuple[list[UOp], list[Maybe]]:
        moves = [t is not None for t in tangents]
        values = [*primals, *present(tangents)]
        flags = [*self.flags, *pick(self.flags, moves)]
        ps = _members(values, flags)
        n = len(primals)
        outs, douts = self.rule.jvp(ps[:n], deal(ps[n:], moves))
        moving = [t is not None for t in douts]
        got, out = _batched(ps, [*outs, *present(douts)], values, flags, self.at)
        wanted = [*self.outs, *pick(self.outs, moving)]
        made = [_made(x, f, w, self.at.size) for x, f, w in zip(got, out, wanted, strict=True)]
        return made[: len(outs)], deal(made[len(outs) :], moving)

    def fwd(
        self, primals: Sequence[UOp], moves: Sequence[bool]
    ) -> tuple[list[UOp], list[UOp], _BatchedBack]:
        ps = _members(primals, self.flags)
        outs, residuals, back = self.rule.fwd(ps, moves)
        got, out = _batched(ps, [*outs, *residuals], primals, self.flags, self.at)
        wanted = [*self.outs, *[True] * len(residuals)]
        made = [_made(x, f, w, self.at.size) for x, f, w in zip(got, out, wanted, strict=True)]
        n = len(outs)
        return made[:n], made[n:], _BatchedBack(back, self.flags, self.at, self.refs)


@dataclass(frozen=True, slots=True)
class _BatchedBack:
    """A backward rule under vmap. The cotangent of an argument that is not batched is the sum over all members."""

    back: Any
    flags: tuple[bool, ...]  # of the arguments
    at: Batching
    refs: int

    def bwd(self, residuals: Sequence[UOp], cts: Sequence[Maybe]) -> list[Maybe]:
        """The cotangents of the arguments; of Refs, what they are now."""
        there = [c is not None for c in cts]
        values = [*residuals, *present(cts)]
        plain = len(self.flags) - self.refs
        of_cts = [*[True] * (len(cts) - self.refs), *self.flags[plain:]]
        flags = [*[True] * len(residuals), *pick(of_cts, there)]
        ps = _members(values, flags)
        n = len(residuals)
        parts = list(self.back.bwd(ps[:n], deal(ps[n:], there)))
        got, out = _batched(ps, present(parts), values, flags, self.at)
        it = iter(zip(got, out, strict=True))
        result: list[Maybe] = []
        for k, (part, wanted) in enumerate(zip(parts, self.flags, strict=True)):
            if part is None:
                result.append(None)
                continue
            v, is_batched = next(it)
            if k >= plain:
                result.append(_made(v, is_batched, wanted, self.at.size))
                continue
            v = v if is_batched else lead(v, self.at.size)
            result.append(v if wanted else reduce_(v, (0,)))
        return result
