"""The meaning of every op, in NumPy: the judge of every other table.

`ROWS[op](u, *operands)` returns the value of node `u`: an array of its dtype and shape, or a tuple
of arrays for tuple-valued nodes. Elementwise rows stand in `fgrad/uop/meaning.py`. Slow and simple;
sums of float32 are carried in float64, of small floats in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError
from fgrad.uop import dtype as dt
from fgrad.uop import meaning
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, const_value, toposort
from fgrad.uop.op import ELEMENTWISE, Mode, Op
from fgrad.uop.program import Program, Update

Array = np.ndarray[Any, np.dtype[Any]]
Value = Any  # an Array, or a tuple of them
Row = Callable[..., Value]
ROWS: dict[Op, Row] = {}


def evaluate(outs: Sequence[UOp], env: Mapping[UOp, Any]) -> list[Array]:
    """The values of `outs`; `env` gives those of leaves (and of any other node it names).

    BUFFERs that `env` does not name are read from their Storage's owner. Raises ArgumentError for a
    leaf without a value, ShapeError for a value of another shape.
    """
    order = toposort(outs)
    needed = set(outs)  # not what lies only below given nodes
    for u in reversed(order):
        if u in needed and u not in env:
            needed.update(u.src)
    values: dict[UOp, Value] = {}
    with np.errstate(all="ignore"):
        for u in order:
            if u in env:
                values[u] = _given(u, env[u])
            elif u in needed:
                values[u] = _checked(u, ROWS[u.op](u, *[values[s] for s in u.src]))
    return [values[o] for o in outs]


def run_program(program: Program, args: Sequence[Any]) -> list[Array]:
    """The outputs of `program` on `args`, one array for each parameter."""
    if len(args) != len(program.params):
        raise ArgumentError(f"the program takes {len(program.params)} arrays, got {len(args)}")
    return evaluate(program.outs, dict(zip(program.params, args, strict=True)))


def _given(u: UOp, value: Any) -> Value:
    if isinstance(u.dtype, tuple):
        return value
    array = np.asarray(value, u.dtype.np)
    if array.shape != u.shape:
        raise ShapeError(f"{u} was given an array of shape {array.shape}")
    return array


def _checked(u: UOp, value: Value) -> Value:
    if isinstance(u.dtype, tuple):
        shapes = tuple([v.shape for v in value])
        kinds = tuple([v.dtype for v in value])
        assert (kinds, shapes) == (tuple([d.np for d in u.dtype]), u.shape), (u, kinds, shapes)
        return value
    array = np.asarray(value)
    assert array.dtype == u.dtype.np and array.shape == u.shape, (u, array.dtype, array.shape)
    return array


def row(*ops: Op) -> Callable[[Row], Row]:
    """Enter a row of the table."""

    def enter(f: Row) -> Row:
        for op in ops:
            ROWS[op] = f
        return f

    return enter


# ---- leaves
row(Op.CONST)(lambda u: const_value(u))
row(Op.IOTA)(lambda u: np.arange(u.arg[1]).astype(u.dtype.np))


@row(Op.PARAM, Op.VARIABLE)
def _(u: UOp) -> Value:
    raise ArgumentError(f"no value was given for {u.op.name} {u.arg}")


@row(Op.BUFFER)
def _(u: UOp) -> Value:
    if u.arg.owner is None:
        raise ArgumentError(f"no value was given for {u}, and its storage has no owner to read")
    return _given(u, u.arg.owner)


# ---- movement
row(Op.RESHAPE)(lambda u, x: x.reshape(u.arg))
row(Op.PERMUTE)(lambda u, x: x.transpose(u.arg))
row(Op.FLIP)(lambda u, x: np.flip(x, u.arg))
row(Op.BITCAST)(lambda u, x: np.ascontiguousarray(x).reshape(x.shape).view(u.dtype.np))


@row(Op.EXPAND)
def _(u: UOp, x: Array) -> Array:
    return np.broadcast_to(np.expand_dims(x, tuple([axis for axis, _ in u.arg])), u.shape)


@row(Op.PAD)
def _(u: UOp, x: Array) -> Array:
    out = np.zeros(u.shape, u.dtype.np)
    where = [slice(lo, lo + (n - 1) * (mid + 1) + 1 if n else lo, mid + 1)
             for n, (lo, _, mid) in zip(x.shape, u.arg, strict=True)]  # fmt: skip
    out[tuple(where)] = x
    return out


def box_slices(shape: tuple[int, ...], box: Any, starts: Sequence[Array]) -> tuple[slice, ...]:
    """The slices that a box means; computed starts are clamped so that the part lies inside."""
    computed = iter(starts)
    out = []
    for n, (start, size, step) in zip(shape, box, strict=True):
        extent = (size - 1) * step + 1 if size else 0
        at = min(max(int(next(computed)), 0), n - extent) if start is None else start
        out.append(slice(at, at + extent, step))
    return tuple(out)


row(Op.SHRINK)(lambda u, x, *starts: x[box_slices(x.shape, u.arg, starts)])


@row(Op.WINDOW)
def _(u: UOp, x: Array) -> Array:
    axis, kaxis, _, o, stride, dilation = u.arg
    out = np.zeros(u.shape, u.dtype.np)
    to, of = np.moveaxis(out, (axis, kaxis), (0, 1)), np.moveaxis(x, (axis, kaxis), (0, 1))
    for i, k in product(range(o), range(of.shape[1])):
        to[i, k] = of[i * stride + k * dilation, k]
    return out


@row(Op.SKEW)
def _(u: UOp, x: Array) -> Array:
    axis, kaxis, n, o, stride, dilation = u.arg
    out = np.zeros(u.shape, u.dtype.np)
    to, of = np.moveaxis(out, (axis, kaxis), (0, 1)), np.moveaxis(x, (axis, kaxis), (0, 1))
    for i, k in product(range(o), range(of.shape[1])):
        if 0 <= i * stride + k * dilation < n:
            to[i * stride + k * dilation, k] = of[i, k]
    return out


row(*ELEMENTWISE)(meaning.apply)

# ---- across elements
_UFUNCS = {
    Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum, Op.MIN: np.minimum,
    Op.AND: np.bitwise_and, Op.OR: np.bitwise_or, Op.XOR: np.bitwise_xor,
}  # fmt: skip
_MODES = {Mode.ADD: Op.ADD, Mode.MUL: Op.MUL, Mode.MIN: Op.MIN, Mode.MAX: Op.MAX}


def _ufunc(op: Op, dtype: DType) -> Any:
    if dtype is dt.bool_ and op in (Op.ADD, Op.MUL):
        return np.logical_or if op is Op.ADD else np.logical_and
    return _UFUNCS[op]


def _wide(dtype: DType) -> Any:
    """The NumPy dtype that sums and products of `dtype` are carried in."""
    if dtype in (dt.float32, dt.complex64):
        return np.float64 if dtype is dt.float32 else np.complex128
    return dt.accumulator(dtype).np


def _narrow(x: Array, dtype: DType) -> Array:
    return np.asarray(x).astype(dtype.np, copy=False)


@row(Op.REDUCE)
def _(u: UOp, x: Array) -> Array:
    op, axes = u.arg
    if any(x.shape[a] == 0 for a in axes):
        return np.full(u.shape, meaning.identity(op, u.dtype), u.dtype.np)
    wide = x.astype(_wide(u.dtype))
    if op is Op.MUL and u.dtype.is_complex:  # NumPy's own start, 1+0j, makes NaN of an infinity
        if x.size == 0:
            return np.zeros(u.shape, u.dtype.np)
        flat = np.moveaxis(wide, axes, range(-len(axes), 0)).reshape(*u.shape, -1)
        return _narrow(np.multiply.accumulate(flat, axis=-1)[..., -1], u.dtype)
    # -0.0 leaves every float as it is; NumPy's own start, +0.0, would lose the sign of -0.0
    zero = complex(-0.0, -0.0) if u.dtype.is_complex else -0.0
    start = {"initial": zero} if op is Op.ADD and u.dtype.is_inexact else {}
    return _narrow(_ufunc(op, u.dtype).reduce(wide, axis=axes, dtype=wide.dtype, **start), u.dtype)


@row(Op.PREFIX)
def _(u: UOp, x: Array) -> Array:
    op, axis, reverse = u.arg
    wide = x.astype(_wide(u.dtype))
    if reverse:
        wide = np.flip(wide, axis)
    out = _ufunc(op, u.dtype).accumulate(wide, axis=axis, dtype=wide.dtype)
    return _narrow(np.flip(out, axis) if reverse else out, u.dtype)


@row(Op.SORT)
def _(u: UOp, key: Array, *payloads: Array) -> tuple[Array, ...]:
    small = u.src[0].dtype in dt.SMALL_FLOATS
    order = np.argsort(key.astype(np.float32) if small else key, axis=u.arg, kind="stable")
    return tuple([np.take_along_axis(x, order, u.arg) for x in (key, *payloads)])


def _rows(shape: tuple[int, ...], idx: Array, batch: int) -> tuple[tuple[Array, ...], Array]:
    """-> (index arrays over the leading batch+1 axes of `shape`, which of them are in bounds)."""
    lead = np.indices(idx.shape)[:batch]
    wide = idx.astype(np.int64) if idx.dtype != np.uint64 else np.minimum(idx, 1 << 62).astype("i8")
    inside = (wide >= 0) & (wide < shape[batch])
    return (*lead, np.where(inside, wide, 0)), inside


@row(Op.GATHER)
def _(u: UOp, x: Array, idx: Array) -> Array:
    where, inside = _rows(x.shape, idx, u.arg)
    if x.shape[u.arg] == 0:
        return np.zeros(u.shape, u.dtype.np)
    mask = inside.reshape(inside.shape + (1,) * (x.ndim - u.arg - 1))
    return np.where(mask, x[where], np.zeros((), u.dtype.np))


@row(Op.UPDATE)
def _(u: UOp, old: Array, value: Array, *more: Array) -> Array:
    arg: Update = u.arg
    gate = more[-1] if arg.gated else None
    wide = u.dtype.np if arg.mode is Mode.SET else _wide(u.dtype)
    out, value = old.astype(wide), value.astype(wide)
    if arg.box is not None:
        part = box_slices(old.shape, arg.box, more[: len(more) - arg.gated])
        new = value if arg.mode is Mode.SET else _combine(arg.mode, u.dtype)(out[part], value)
        out[part] = new if gate is None else np.where(gate, new, out[part])
        return _narrow(out, u.dtype)
    where, inside = _rows(old.shape, more[0], arg.batch)
    written = inside if gate is None else inside & gate
    where = tuple([w[written] for w in where])  # in index order, so that the last writer wins
    if arg.mode is Mode.SET:
        out[where] = value[written]
    else:
        _combine(arg.mode, u.dtype).at(out, where, value[written])
    return _narrow(out, u.dtype)


def _combine(mode: Mode, dtype: DType) -> Any:
    return _ufunc(_MODES[mode], dtype)


# ---- calls
row(Op.CALL)(lambda u, *args: tuple(run_program(u.arg.body, args)))
row(Op.TUPLE)(lambda u, *xs: xs)
row(Op.GET)(lambda u, x: x[u.arg])


@row(Op.SCAN)
def _(u: UOp, *args: Array) -> tuple[Array, ...]:
    scan = u.arg
    consts, xs = args[: scan.consts], args[scan.consts + scan.carry :]
    carry = list(args[scan.consts : scan.consts + scan.carry])
    ys = [np.zeros((scan.length, *y.shape), y.dtype.np) for y in scan.body.outs[scan.carry :]]
    for t in range(scan.length)[:: -1 if scan.reverse else 1]:
        outs = run_program(scan.body, (*consts, *carry, *[x[t] for x in xs]))
        carry = outs[: scan.carry]
        for y, out in zip(ys, outs[scan.carry :], strict=True):
            y[t] = out
    return (*carry, *ys)


@row(Op.WHILE)
def _(u: UOp, *args: Array) -> tuple[Array, ...]:
    consts, carry = args[: u.arg.consts], list(args[u.arg.consts :])
    while run_program(u.arg.cond, (*consts, *carry))[0]:
        carry = run_program(u.arg.body, (*consts, *carry))
    return tuple(carry)


@row(Op.COND)
def _(u: UOp, index: Array, *args: Array) -> tuple[Array, ...]:
    last = len(u.arg.branches) - 1
    return tuple(run_program(u.arg.branches[min(max(int(index), 0), last)], args))


@row(Op.HOST)
def _(u: UOp, *args: Array) -> tuple[Array, ...]:
    """An ordered call has a token first among its sources and results; the callback sees none."""
    host = u.arg
    token = args[: int(host.ordered)]
    outs = (*token, *host.callback(*args[len(token) :]))
    if len(outs) != len(host.out_avals):
        raise ArgumentError(
            f"callback {host.name or host.callback} returned {len(outs) - len(token)} arrays, "
            f"{len(host.out_avals) - len(token)} are declared"
        )
    return tuple([np.asarray(o, a.dtype.np) for o, a in zip(outs, host.out_avals, strict=True)])


# ---- across devices, and order
row(Op.COPY)(lambda u, x: x)
row(Op.AFTER)(lambda u, x, *deps: x)


@row(Op.COLLECTIVE)
def _(u: UOp, x: Array) -> Value:
    raise NotImplementedError(
        f"COLLECTIVE over axis {u.arg[1]!r} has no meaning outside vmap; batch the program first"
    )


@row(Op.LOAD, Op.STORE)
def _(u: UOp, *xs: Array) -> Value:
    raise NotImplementedError(
        f"{u.op.name} has no value of its own; make versions with functionalise() first"
    )
