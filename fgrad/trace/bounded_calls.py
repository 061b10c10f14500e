"""Rows of calls for `bounded`: the programs inside are bounded too, with the scalars they need as further operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fgrad.trace.alike import Alike, Dim, Scalars, Unlike, Walk, bounding, params_of, roots_of
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.build import cast, const, iota, lt
from fgrad.uop.node import UOp, open_param, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Cond, Host, Program, Scan, While, close, gets


class _Inside:
    """The scalars of the programs of one call: parameters there, operands of the call outside."""

    def __init__(self) -> None:
        self.params: list[UOp] = []
        self.scalars = Scalars(self._param)

    def _param(self, position: int, dtype: dt.DType) -> UOp:
        self.params.append(open_param(dtype, (), "size"))
        return self.params[-1]

    def walk(self, programs: Sequence[Program]) -> tuple[list[UOp], list[UOp]]:
        """-> (parameters, outs) of three programs in step."""
        check_same_count(programs)
        given = params_of(programs)
        params = [open_param(p.top.dtype, p.top.shape, "bounded") for p in given]
        return params, Walk(self.scalars, dict(zip(given, params, strict=True))).outs(roots_of(programs))

    def outside(self, at: Walk) -> list[UOp]:
        """The operands that the scalars stand for."""
        return [at.scalars.get(dtype, numbers) for dtype, numbers in self.scalars.known]


def check_same_count(programs: Sequence[Program]) -> None:
    """Raise Unlike where programs in step have other parameters or results."""
    first, *others = [(len(p.params), len(p.outs)) for p in programs]
    if any(x != first for x in others):
        outs = [next(iter(p.outs), const(0, dt.int64)) for p in programs]
        raise Unlike(Alike(*outs), "a loop or branch has other operands or results")


def _programs(a: Alike, of: Callable[[Any], Program]) -> list[Program]:
    return [of(arg) for arg in a.args]


@bounding(Op.CALL)
def _(a: Alike, src: list[UOp], at: Walk) -> list[UOp]:
    """Its derivatives have been taken: inlined."""
    programs = _programs(a, lambda arg: arg.body)
    check_same_count(programs)
    got: list[UOp] = Walk(at.scalars, dict(zip(params_of(programs), src, strict=True))).outs(roots_of(programs))
    return got


@bounding(Op.SCAN)
def _(a: Alike, src: list[UOp], at: Walk) -> list[UOp]:
    """Steps beyond the length leave the carry as it is, and do nothing."""
    consts, carry, xs, _ = a.same(lambda s: (s.consts, s.carry, s.xs, s.reverse))
    scan: Scan = a.top.arg
    length: Dim = at.scalars.size(*[arg.length for arg in a.args])
    inner = _Inside()
    params, outs = inner.walk(_programs(a, lambda arg: arg.body))
    first, state, slices = params[:consts], params[consts : consts + carry], params[consts + carry :]
    steps: list[UOp] = []
    if isinstance(length, UOp):
        n = inner.scalars.size(*[arg.length for arg in a.args])
        step = open_param(dt.int64, (), "step")
        steps = [iota(scan.length)]
        outs = _where_running(lt(step, n), [*first, *inner.params, *state, *slices], outs, state)
        slices = [*slices, step]
    body = close((*first, *inner.params, *state, *slices), outs)
    given = (*src[:consts], *inner.outside(at), *src[consts:], *steps)
    arg = Scan(body, scan.length, consts + len(inner.params), carry, xs + len(steps), scan.reverse)
    return gets(uop(Op.SCAN, given, arg))


def _where_running(running: UOp, params: list[UOp], outs: list[UOp], state: list[UOp]) -> list[UOp]:
    """`outs` of a step, or the state unchanged and zeros."""
    idle = [*state, *[const(0, o.dtype, o.shape) for o in outs[len(state) :]]]
    branches = (close(params, idle), close(params, outs))
    return gets(uop(Op.COND, (cast(running, dt.int64), *params), Cond(branches)))


@bounding(Op.WHILE)
def _(a: Alike, src: list[UOp], at: Walk) -> list[UOp]:
    consts = a.same(lambda w: w.consts)
    inner = _Inside()
    cond_params, cond = inner.walk(_programs(a, lambda arg: arg.cond))
    body_params, body = inner.walk(_programs(a, lambda arg: arg.body))
    more = inner.params
    arg = While(
        close((*cond_params[:consts], *more, *cond_params[consts:]), cond),
        close((*body_params[:consts], *more, *body_params[consts:]), body),
        consts + len(more),
    )
    return gets(uop(Op.WHILE, (*src[:consts], *inner.outside(at), *src[consts:]), arg))


@bounding(Op.COND)
def _(a: Alike, src: list[UOp], at: Walk) -> list[UOp]:
    count = a.same(lambda c: len(c.branches))
    inner = _Inside()
    walked = [inner.walk(_programs(a, lambda arg, k=k: arg.branches[k])) for k in range(count)]  # type: ignore[misc]
    branches = [close((*params, *inner.params), outs) for params, outs in walked]
    return gets(uop(Op.COND, (*src, *inner.outside(at)), Cond(tuple(branches))))


@dataclass(frozen=True, slots=True)
class _Cut:
    """A callback that is given arrays of the lengths of the call, and whose results are put into the space there is.

    The last `count` arguments are lengths and other numbers of the call.

    statics   first arguments of the callback: (value, None), or (None, which of the numbers)
    lengths   for each array and axis: which of the numbers is its length; None: it is as long as its space
    """

    callback: Callable[..., Any]
    statics: tuple[tuple[Any, int | None], ...]
    lengths: tuple[tuple[int | None, ...], ...]
    count: int
    space: tuple[Aval, ...]

    def __call__(self, *args: Any) -> list[Any]:
        numbers = [int(n) for n in args[len(args) - self.count :]]
        statics = [x if k is None else numbers[k] for x, k in self.statics]
        arrays = []
        for x, axes in zip(args, self.lengths, strict=False):
            arrays.append(np.array(x[tuple([slice(None if k is None else numbers[k]) for k in axes])]))
        out = []
        for y, aval in zip(self.callback(*statics, *arrays), self.space, strict=True):
            room = np.zeros(aval.shape, aval.dtype.np)
            room[tuple([slice(n) for n in np.shape(y)])] = y
            out.append(room)
        return out


@bounding(Op.HOST)
def _(a: Alike, src: list[UOp], at: Walk) -> list[UOp]:
    """Its rules are not needed any more: derivatives have been taken."""
    host: Host = replace(a.top.arg, jvp=None, transpose=None, batch=None)
    a.same(lambda h: replace(h, callback=None, out_avals=(), jvp=None, transpose=None, batch=None))
    callback, statics = _callback(a, at)
    token = int(host.ordered)
    dims = [at.dims(s) for s in a.sources[token:]]
    numbers = list(dict.fromkeys([n for row in (statics, *dims) for n in row if isinstance(n, UOp)]))
    if not numbers:
        return gets(uop(Op.HOST, tuple(src), host))
    known = tuple([(None, numbers.index(x)) if isinstance(x, UOp) else (x, None) for x in statics])
    lengths = tuple([tuple([numbers.index(n) if isinstance(n, UOp) else None for n in row]) for row in dims])
    cut = _Cut(callback, known, lengths, len(numbers), host.out_avals[token:])
    return gets(uop(Op.HOST, (*src, *numbers), replace(host, callback=cut)))


def _callback(a: Alike, at: Walk) -> tuple[Callable[..., Any], list[Any]]:
    """-> (the function that is called, its first arguments; those that are lengths are scalars)."""
    callbacks: list[Any] = [host.callback for host in a.args]
    if all(c is callbacks[0] for c in callbacks):
        return callbacks[0], []
    rows = [(c.func, len(c.args)) for c in callbacks if isinstance(c, partial) and not c.keywords]
    if len(rows) < len(callbacks) or any(row != rows[0] for row in rows):
        raise Unlike(a, f"it calls another Python function {a.now.arg.name}")
    statics: list[Any] = []
    for values in zip(*[c.args for c in callbacks], strict=True):
        if all(x == values[0] for x in values):
            statics.append(values[0])
        elif all(type(x) is int for x in values):
            statics.append(at.scalars.size(*values))
        else:
            raise Unlike(a, f"it calls {a.now.arg.name} with {values[2]!r} instead of {values[0]!r}")
    return rows[0][0], statics
