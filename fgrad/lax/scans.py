"""scan: a loop over a leading axis, with a carry, inside a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fgrad.config import config
from fgrad.errors import ArgumentError, ShapeError, describe, note_user_line
from fgrad.lax.shapes import stack
from fgrad.lax.staging import (
    as_one_program,
    close_together,
    fits,
    mismatch,
    refs_of,
    tracers,
    wider,
)  # fmt: skip
from fgrad.trace import tree
from fgrad.trace.apply import need_arrays, operand
from fgrad.trace.frames import trimmed
from fgrad.trace.ref import Held, Ref, current, hide_refs, ref_over, show_refs
from fgrad.trace.stage import Stage, is_tracing, stages
from fgrad.trace.staging import Traced, argument_names, function_name, trace
from fgrad.trace.tracer import Tracer, lift
from fgrad.uop import build
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, open_param, paused_gc, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Call, Program, Scan, close, gets


@trimmed
def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
    *,
    checkpoint: bool | int | str | None = None,
) -> Any:
    """Run `carry, y = f(carry, x)` over the leading axis of `xs`; gives (final carry, stacked y).

    init        the first carry, a pytree of arrays; f returns carries of the same structure,
                shapes and dtypes, and the same Ref where there is one
    xs          pytree of arrays with the same leading axis, or None: then `length` says how many
                steps. Of a Ref among them every step gets its slice, as a Ref that it may write
    reverse     go from the last x to the first; y number i still belongs to x number i
    unroll      how many steps are written one after the other in the body of the loop that runs; True or 0 for
                all: no loop is left. The compiled program grows with it
    checkpoint  what to keep for the derivative: None, everything it needs; True, the carry of
                every step; k, the carry of
                every k-th step; "sqrt", of about sqrt(length) of them. The rest is computed again.

    Raises ArgumentError when the carry changes its type, ShapeError when lengths differ.

    >>> scan(lambda c, x: (c + x, c), 0.0, fnp.arange(3.0))
    (Array(3., dtype=float32), Array([0., 0., 1.], dtype=float32))
    """
    leaves, spec = tree.flatten(xs)
    n = length_of(leaves, spec, length)
    if not callable(f):
        raise note_user_line(ArgumentError(f"scan needs a function as its first argument, got {describe(f)}"))
    if config.disable_jit and not is_tracing():
        return _scan_as_python(f, init, xs, n, reverse)
    return run_steps(f, init, xs, Steps(n, bool(reverse), checkpoint, unroll=unroll_of("scan", unroll, n)))


def unroll_of(what: str, unroll: int | bool | None, n: int) -> int:
    if unroll is None or unroll is False:
        return 1
    if not isinstance(unroll, int):
        raise note_user_line(
            ArgumentError(f"The `unroll` argument to `{what}` expects a concrete `int` or `bool` value, got {unroll!r}")
        )
    if unroll < 0:
        raise note_user_line(ValueError(f"`unroll` of `{what}` must be a `bool` or a non-negative `int`, got {unroll}"))
    if "keys" in config.check:  # steps in a row would have one mark for their uses of keys
        return 1
    return max(n, 1) if unroll is True or unroll == 0 else unroll


def _scan_as_python(f: Callable[..., Any], carry: Any, xs: Any, n: int, reverse: bool) -> Any:
    ys = []
    for i in reversed(range(n)) if reverse else range(n):
        carry, y = f(carry, tree.map_(lambda x, i=i: x[i], xs))
        ys.append(y)
    if not n:
        raise ValueError("scan of length 0 is not run under disable_jit: the shape of its results is unknown")
    return carry, tree.map_(lambda *each: stack(each), *(reversed(ys) if reverse else ys))


@dataclass(frozen=True, slots=True)
class Steps:
    """How a scan runs."""

    length: int
    reverse: bool
    checkpoint: bool | int | str | None = None
    what: str = "scan"
    unroll: int = 1

    @property
    def segment(self) -> int:
        """How many steps are computed again together in the derivative; 0 for none."""
        match self.checkpoint:
            case None | False:
                return 0
            case True:
                return 1
            case "sqrt":
                return max(1, int(round(self.length**0.5)))
            case int(k) if k >= 1:
                return k
        raise note_user_line(
            ArgumentError(f'scan checkpoint is None, True, "sqrt" or a number of steps, got {self.checkpoint!r}')
        )


def length_of(leaves: Sequence[Any], spec: tree.TreeDef, length: int | None, what: str = "scan") -> int:
    sizes = {}
    for i, x in enumerate(leaves):
        shape = x.shape if isinstance(x, Ref) else lift(x).shape
        if not shape:
            raise note_user_line(
                ShapeError(f"{what} runs over the leading axis of xs, but {tree.path_of(spec, i, 'xs')} is a scalar")
            )
        sizes[tree.path_of(spec, i, "xs")] = shape[0]
    if length is not None:
        sizes["length"] = int(length)
    if not sizes:
        raise note_user_line(ArgumentError(f"{what} without xs needs length="))
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{k} has {v}" for k, v in sizes.items())
        raise note_user_line(ShapeError(f"{what} got different lengths: {listed}"))
    return next(iter(sizes.values()))


@as_one_program("scan")
def run_steps(f: Callable[..., Any], init: Any, xs: Any, steps: Steps) -> Any:
    """`scan` as `steps` says: -> (carry, stacked results)."""
    if any(isinstance(x, Ref) for x in tree.leaves_of(xs)):
        return _scan_refs(f, init, xs, steps)
    if "keys" in config.check and not tree.leaves_of((init, xs)):  # a step needs something of its own to be known by
        return run_steps(lambda carry, _: f(carry, xs), init, Tracer(build.iota(steps.length)), steps)
    init = hide_refs(init)
    init_leaves, init_tree = tree.flatten(init)
    x_leaves, x_tree = tree.flatten(xs)
    need_arrays(init_leaves, init_tree, "scan", "init")
    need_arrays(x_leaves, x_tree, "scan", "xs")
    starts = [operand(x) for x in init_leaves]
    rows = [operand(x) for x in x_leaves]
    avals = [t.aval for t in starts]
    slices = [Aval(r.aval.dtype, r.shape[1:], r.weak) for r in rows]
    in_tree = tree.structure(((init, xs), {}))
    with paused_gc():
        avals, traced, carries, y_nodes, y_tree, y_weak = _settled(f, in_tree, avals, slices, init_tree, steps.what)
        begin = [build.cast(t.node, a.dtype) for t, a in zip(starts, avals, strict=True)]
        read, written = refs_of([traced])
        k = len(avals)
        entries = [traced.entry(r) for r in written]
        params = [*[traced.entry(r) for r in read], *traced.params[:k], *entries, *traced.params[k:]]
        finals = [traced.final(r, e) for r, e in zip(written, entries, strict=True)]
        captured, (program,) = close_together([(params, [*carries, *finals, *y_nodes])], "scan")
        consts = [*captured, *[current(r) for r in read]]
        carry = [*begin, *[current(r) for r in written]]
        results = scan_nodes(program, consts, carry, [r.node for r in rows], steps)
    write_back(written, results[k : k + len(written)])
    out = show_refs(tree.unflatten(init_tree, tracers(results[:k], [a.weak for a in avals])))
    return out, tree.unflatten(y_tree, tracers(results[k + len(written) :], y_weak))


def _scan_refs(f: Callable[..., Any], init: Any, xs: Any, steps: Steps) -> Any:
    """A scan with Refs among `xs`: their slices go into every step, and come out of it as written."""
    leaves, spec = tree.flatten(xs)
    refs = list(dict.fromkeys([x for x in leaves if isinstance(x, Ref)]))
    number = {r: i for i, r in enumerate(refs)}
    plain = [x for x in leaves if not isinstance(x, Ref)]
    both: list[list[Ref]] = [refs, [r.reverse for r in refs]]
    written: set[Ref] = set()

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        rows, *sides = x
        before = [[lift(v).node for v in side] for side in sides]
        slices = [ref_over(now, back) for now, back in zip(*before, strict=True)]
        it = iter(rows)
        given = [slices[number[x]] if isinstance(x, Ref) else next(it) for x in leaves]
        carry, y = _pair(f, carry, tree.unflatten(spec, given))
        if any(r in stages()[-1].refs for r in refs):
            raise note_user_line(
                ArgumentError("scan runs over a Ref that its function also closes over; use the slice that it is given")
            )
        after = [[current(r) for r in slices], [current(r.reverse) for r in slices]]
        for sides_of, old, new in zip(both, before, after, strict=True):
            written.update([r for r, a, b in zip(sides_of, old, new, strict=True) if a is not b])
        return carry, (y, [[Tracer(node) for node in side] for side in after])

    rows = (plain, *[[Tracer(current(r)) for r in side] for side in both])
    carry, (y, after) = run_steps(step, init, rows, steps)
    for side, contents in zip(both, after, strict=True):
        for ref, new in zip(side, contents, strict=True):
            if ref in written:
                ref.put(new)
    return carry, y


def write_back(refs: Sequence[Ref], nodes: Sequence[UOp]) -> None:
    """Put what a loop has left into the Refs that it writes."""
    for r, n in zip(refs, nodes, strict=True):
        r.put(Tracer(n))


def _settled(
    f: Callable[..., Any],
    in_tree: tree.TreeDef,
    avals: list[Aval],
    slices: list[Aval],
    init_tree: tree.TreeDef,
    what: str,
) -> tuple[list[Aval], Traced, list[UOp], list[UOp], tree.TreeDef, list[bool]]:
    """Trace the body until the carry has a type that it keeps: weak initial values take the dtype
    the body gives them.
    """
    k = len(avals)
    while True:
        pair: list[tree.TreeDef] = []

        def body(carry: Any, x: Any, pair: list[tree.TreeDef] = pair) -> Any:
            new, y = _pair(f, show_refs(carry), x)
            new = hide_refs(new)
            pair.extend([tree.structure(new), tree.structure(y)])
            return new, y

        stage = Stage(f"{what}({function_name(f)})", repeats=True)
        traced = trace(body, in_tree, [*avals, *slices], stage, argument_names(f, in_tree))
        carry_tree, y_tree = pair
        need_same_tree(what, "the carry", init_tree, carry_tree)
        outs, weak = traced.outs[:k], traced.weak[:k]
        carries, better = [], list(avals)
        for i, (o, w, a) in enumerate(zip(outs, weak, avals, strict=True)):
            stronger = wider(a, o, w)
            if stronger is not None:
                better[i] = stronger
                continue
            fitting = fits(o, w, a)
            if fitting is None:
                raise mismatch(what, tree.path_of(init_tree, i, "carry"), a, Aval(o.dtype, o.shape))
            carries.append(fitting)
            better[i] = Aval(a.dtype, a.shape, a.weak and w)
        if better == avals:
            return avals, traced, carries, traced.outs[k:], y_tree, traced.weak[k:]
        avals = better


def _pair(f: Callable[..., Any], carry: Any, x: Any) -> tuple[Any, Any]:
    """f(carry, x), checked to be a pair."""
    result = f(carry, x)
    if not (isinstance(result, tuple | list) and len(result) == 2):
        raise note_user_line(
            ArgumentError(f"scan: {function_name(f)} must return a pair (carry, y), got {describe(result)}")
        )
    return result[0], result[1]


def need_same_tree(what: str, which: str, want: tree.TreeDef, got: tree.TreeDef) -> None:
    place = tree.difference(want, got, which)
    if place is not None:
        path, went_in, came_out = place
        if any(isinstance(x, Held) for spec in (want, got) for x in _parts(spec)):
            raise note_user_line(
                ArgumentError(f"{what}: {which} begins with Refs or ends with them; each must come back as it went in")
            )
        raise note_user_line(
            ArgumentError(
                f"{what}: {which} must keep its structure, but {path} went in as {went_in} and came out as {came_out}"
            )
        )


def _parts(spec: tree.TreeDef) -> list[Any]:
    """The leaves of a structure, and what stands for Refs in it."""
    return tree.leaves_of(tree.unflatten(spec, range(spec.num_leaves)), is_leaf=lambda x: isinstance(x, Held))


def scan_nodes(
    program: Program, consts: Sequence[UOp], carry: Sequence[UOp], xs: Sequence[UOp], steps: Steps
) -> list[UOp]:
    """The results (carries, stacked ys) of a SCAN of `program`, in checkpointed segments or with several steps
    in its body where `steps` asks for them.
    """
    checkpointed, n = steps.segment, steps.length
    nc, k = len(consts), len(carry)
    if checkpointed == 0 and n and steps.unroll >= n:
        return _in_a_row(program, consts, carry, xs, steps)
    if checkpointed == 0 and steps.unroll == 1:
        node = Scan(program, n, nc, k, len(xs), steps.reverse)
        return gets(uop(Op.SCAN, (*consts, *carry, *xs), node))
    if checkpointed == 1:
        kept = _kept(program)
        return gets(uop(Op.SCAN, (*consts, *carry, *xs), Scan(kept, n, nc, k, len(xs), steps.reverse)))
    segment = checkpointed or steps.unroll
    many, rest = divmod(n, segment)
    inner = Steps(segment, steps.reverse, unroll=steps.unroll)
    params = [open_param(u.dtype, u.shape) for u in (*consts, *carry)]
    part = [open_param(x.dtype, (segment, *x.shape[1:])) for x in xs]
    body = close([*params, *part], scan_nodes(program, params[:nc], params[nc:], part, inner))

    def pieces(carry: Sequence[UOp]) -> tuple[list[UOp], list[UOp]]:
        cut = rest if steps.reverse else 0
        rows = [build.slice_axis(x, 0, cut, cut + many * segment) for x in xs]
        rows = [build.reshape(x, (many, segment, *x.shape[1:])) for x in rows]
        arg = Scan(_kept(body) if checkpointed else body, many, nc, k, len(xs), steps.reverse)
        out = gets(uop(Op.SCAN, (*consts, *carry, *rows), arg))
        return out[:k], [build.reshape(y, (many * segment, *y.shape[2:])) for y in out[k:]]

    def remainder(carry: Sequence[UOp]) -> tuple[list[UOp], list[UOp]]:
        start = 0 if steps.reverse else many * segment
        rows = [build.slice_axis(x, 0, start, start + rest) for x in xs]
        out = scan_nodes(program, consts, carry, rows, Steps(rest, steps.reverse, unroll=steps.unroll))
        return out[:k], out[k:]

    carry, ys = pieces(carry)
    if rest:
        carry, more = remainder(carry)
        ys = [build.concatenate([b, a] if steps.reverse else [a, b], 0) for a, b in zip(ys, more, strict=True)]
    return [*carry, *ys]


def _in_a_row(
    program: Program, consts: Sequence[UOp], carry: Sequence[UOp], xs: Sequence[UOp], steps: Steps
) -> list[UOp]:
    """All steps written one after the other."""
    k = len(carry)
    rows: list[list[UOp]] = []
    for i in reversed(range(steps.length)) if steps.reverse else range(steps.length):
        x = [build.reshape(build.slice_axis(x, 0, i, i + 1), x.shape[1:]) for x in xs]
        out = program.inline([*consts, *carry, *x])
        carry = out[:k]
        rows.append([build.reshape(y, (1, *y.shape)) for y in out[k:]])
    if steps.reverse:
        rows.reverse()
    return [*carry, *[build.concatenate(list(y), 0) for y in zip(*rows, strict=True)]]


def _kept(program: Program) -> Program:
    """`program` as a checkpoint: its inputs are kept, its inside is computed again in the derivative."""
    params = [open_param(p.dtype, p.shape) for p in program.params]
    return close(params, gets(uop(Op.CALL, tuple(params), Call(program, "checkpoint", "scan"))))


__all__ = ["scan"]
