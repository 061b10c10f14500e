"""x.at[idx]: parts of an array, to be read or replaced in a new array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.errors import OutOfBoundsError, note_user_line
from fgrad.numpy.common import lift, public
from fgrad.numpy.elementwise import divide
from fgrad.numpy.indexing import fitted, read, value_node, write_at
from fgrad.numpy.powers import power
from fgrad.numpy.subscripts import parse
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trim_methods
from fgrad.trace.tracer import ArrayLike, Tracer, is_scalar, scalar_fits
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp
from fgrad.uop.op import Mode

__all__ = ["At", "AtIndex"]


# ---- masks: no positions are needed, so they work inside a stage
def _mask_axis(idx: Any, shape: tuple[int, ...]) -> tuple[Any, int] | None:
    """(mask, its first axis) if the index is one mask with full slices around it, else None."""
    items = list(idx) if isinstance(idx, tuple) else [idx]
    masks = [i for i in items if isinstance(i, Array | np.ndarray) and i.dtype == np.bool_ and i.ndim > 0]
    others = [i for i in items if not any(i is m for m in masks)]
    if len(masks) != 1 or not all(i is Ellipsis or (isinstance(i, slice) and i == slice(None)) for i in others):
        return None
    at = next(k for k, i in enumerate(items) if i is masks[0])
    dots = next((k for k, i in enumerate(items) if i is Ellipsis), None)
    if dots is not None and dots < at:
        axis = len(shape) - (len(items) - at - 1) - masks[0].ndim
    else:
        axis = at
    return masks[0], axis


def _fits_mask(values: ArrayLike, rank: int, axis: int, mask_rank: int) -> bool:
    """Whether `values` need no position along the masked elements."""
    if is_scalar(values):
        return True
    shape = np.shape(values) if not isinstance(values, Array) else values.shape
    after = rank - axis - mask_rank
    return len(shape) <= after or shape[len(shape) - after - 1] == 1


_COMBINE: dict[Mode, Callable[[UOp, UOp], UOp]] = {
    Mode.SET: lambda x, v: v, Mode.ADD: build.add, Mode.MUL: build.mul, Mode.MIN: build.minimum,
    Mode.MAX: build.maximum,
}  # fmt: skip


@public(static=("axis", "how"))
def _set_mask(x: ArrayLike, mask: ArrayLike, values: ArrayLike, axis: int, how: Mode) -> Array:
    t, m = lift(x), lift(mask).node
    if m.shape != t.shape[axis : axis + m.ndim]:
        raise note_user_line(
            OutOfBoundsError(
                f"a boolean index of shape {m.shape} does not fit an array of shape {t.shape}: the axes that it stands "
                f"for, from axis {axis} on, have shape {t.shape[axis : axis + m.ndim]}"
            )
        )
    v = value_node(values, t.node.dtype)
    after = t.ndim - axis - m.ndim
    if v.ndim > after:  # the axis of masked elements has size 1: one for every axis of the mask
        lead = v.shape[: v.ndim - after - 1]
        v = build.reshape(v, (*lead, *(1,) * m.ndim, *v.shape[v.ndim - after :]))
    v = fitted(v, t.shape)
    wide = build.broadcast_to(build.reshape(m, (*m.shape, *(1,) * after)), t.shape)
    return Tracer(build.where(wide, _COMBINE[how](t.node, v), t.node), t.weak)


# ---- x.at
class AtIndex:
    """x.at[idx]: the part of x that the index names, to be read or replaced in a new array."""

    __slots__ = ("x", "idx")

    def __init__(self, x: Array, idx: Any) -> None:
        self.x = x
        self.idx = idx

    def __repr__(self) -> str:
        return f"{self.x!r}.at[{self.idx!r}]"

    def get(
        self,
        *,
        mode: str | None = None,
        fill_value: ArrayLike | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x[idx], with a choice of what happens out of bounds.

        mode         "fill" (or "drop"): `fill_value`; "clip": the nearest element; "wrap": modulo
                     the size;
                     "promise_in_bounds": not checked
        """
        given = mode is not None or fill_value is not None
        entries, operands = parse(self.idx, self.x.shape, checked=not given)
        return read(self.x, entries, operands, mode, fill_value)

    def _update(self, values: ArrayLike, how: Mode, mode: str | None) -> Array:
        if isinstance(values, int) and not isinstance(values, bool):
            scalar_fits(values, self.x.aval.dtype)
        if isinstance(values, list | tuple):
            values = np.asarray(values)
        found = _mask_axis(self.idx, self.x.shape)
        if found is not None and _fits_mask(values, self.x.ndim, found[1], found[0].ndim):
            return _set_mask(self.x, found[0], values, axis=found[1], how=how)
        return write_at(self.x, values, self.idx, mode, how)

    def set(
        self,
        values: ArrayLike,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with the part replaced by `values` (which broadcast). Of repeated indices the last
        wins.
        """
        return self._update(values, Mode.SET, mode)

    def add(
        self,
        values: ArrayLike,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with `values` added to the part. Repeated indices all count."""
        return self._update(values, Mode.ADD, mode)

    def subtract(
        self,
        values: ArrayLike,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with `values` subtracted from the part. Repeated indices all count."""
        return self._update(_negative(values, self.x), Mode.ADD, mode)

    def multiply(
        self,
        values: ArrayLike,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with the part multiplied by `values`. Repeated indices all count."""
        return self._update(values, Mode.MUL, mode)

    mul = multiply

    def min(
        self,
        values: ArrayLike,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with the part replaced by the smaller one of it and `values`."""
        return self._update(values, Mode.MIN, mode)

    def max(
        self,
        values: ArrayLike,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with the part replaced by the larger one of it and `values`."""
        return self._update(values, Mode.MAX, mode)

    def _factors(self, values: ArrayLike, mode: str | None, dtype: DType) -> Array:
        """Ones, with the part multiplied by `values`: what divide and power combine x with."""
        ones = _ones(self.x, dtype)
        return AtIndex(ones, self.idx).multiply(values, mode=mode)

    def divide(
        self,
        values: ArrayLike,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with the part divided by `values`; integers become the default float."""
        dtype = dt.promote(_kind(self.x), _kind(values), (dt.default_float(), True))[0]
        return divide(self.x, self._factors(values, mode, dtype))

    def power(
        self,
        values: ArrayLike,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with the part raised to `values`."""
        exponents = self._factors(values, mode, dt.promote(_kind(self.x), _kind(values))[0])
        return _raised(self.x, exponents)

    def apply(
        self,
        ufunc: Callable[[Array], ArrayLike],
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with the part replaced by ufunc(part). A repeated index is applied once."""
        part = self.get(mode=mode)
        return self.set(ufunc(part), mode=mode)


@public()
def _raised(x: ArrayLike, exponents: ArrayLike) -> Array:
    """Powers, exact where the exponent is 1: the function itself rounds complex ones."""
    out, e = lift(power(x, exponents)), lift(exponents).node
    same = build.cast(build.broadcast_to(lift(x).node, out.shape), out.node.dtype)
    return Tracer(build.where(build.eq(e, build.const_like(1, e)), same, out.node), out.weak)


class At:
    """x.at: index it to name a part."""

    __slots__ = ("x",)

    def __init__(self, x: Array) -> None:
        self.x = x

    def __getitem__(self, idx: Any) -> AtIndex:
        return AtIndex(self.x, idx)

    def __setitem__(self, idx: Any, value: Any) -> None:
        raise note_user_line(TypeError("arrays are immutable; write `x = x.at[idx].set(value)`"))

    def __call__(self, *idx: Any) -> AtIndex:
        raise note_user_line(TypeError("x.at takes an index in brackets: x.at[idx].set(value)"))

    def __repr__(self) -> str:
        return f"{self.x!r}.at"


trim_methods(AtIndex)
trim_methods(At, ("__setitem__", "__call__"))


def _kind(x: ArrayLike) -> tuple[DType, bool]:
    t = lift(x)
    return t.node.dtype, t.weak


@public()
def _negate(values: ArrayLike) -> Array:
    t = lift(values)
    return Tracer(build.neg(t.node), t.weak)


def _negative(values: ArrayLike, x: Array) -> ArrayLike:
    if isinstance(values, int) and not isinstance(values, bool) and x.aval.dtype.is_signed:
        return -values
    return _negate(_cast_to(values, x.aval.dtype))


@public(static=("dtype",))
def _cast_to(values: ArrayLike, dtype: DType) -> Array:
    return Tracer(value_node(values, dtype))


@public(static=("dtype",))
def _ones(x: ArrayLike, dtype: DType) -> Array:
    return Tracer(build.const(1, dtype, lift(x).shape))
