"""Tracer: an array that is still a question; and `lift`, which turns anything array-like into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.errors import (
    ArgumentError,
    ConcretizationError,
    DtypeError,
    TracerArrayConversionError,
    describe,
    note_user_line,
)
from fgrad.trace.arraylike import Array, refuse_value
from fgrad.trace.stage import concrete_value, execute, hooks, origins, stages
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp

ArrayLike = Any  # Array, NumPy array or scalar, Python number


class Tracer(Array):
    """An array inside a stage: a node, and whether its dtype is weak.

    wide   for a Python float: the node of its 64 bits, used where a 64-bit dtype is asked for
    """

    __slots__ = ("node", "weak", "wide", "__weakref__")

    def __init__(self, node: UOp, weak: bool = False, wide: UOp | None = None) -> None:
        self.node = node
        self.weak = weak
        self.wide = wide

    @property
    def aval(self) -> Aval:
        return Aval(self.node.dtype, self.node.shape, self.weak)

    def as_node(self) -> UOp:
        return self.node

    def concrete(self, way_out: str = "") -> Any:
        known = concrete_value([self.node])
        if known is None:
            waiting = [s.what for s in stages() if s.concrete is None]
            raise refuse_value(self.aval, waiting, origins([self.node]), way_out)
        return np.asarray(execute(known)[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        open_now = stages()
        where = f" inside {open_now[-1].what}" if open_now else ""
        raise note_user_line(
            TracerArrayConversionError(
                f"a traced value ({self.aval}) was given to NumPy{where}, where it has no elements yet; use the "
                "function of fgrad.numpy instead, or call NumPy through fgrad.pure_callback"
            )
        )

    def __reduce__(self) -> Any:
        raise note_user_line(
            ArgumentError(f"a traced value ({self.aval}) cannot be pickled: it has no elements yet; return it first")
        )

    def __copy__(self) -> Tracer:
        return self

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self

    def __repr__(self) -> str:
        return f"Tracer<{self.aval}>"


def scalar_node(x: Any) -> tuple[UOp, bool]:
    """(CONST, weak) of a Python or NumPy scalar. Raises OverflowError for an int beyond 64 bits."""
    if isinstance(x, bool | np.bool_):
        return build.const(bool(x), dt.bool_), False
    if isinstance(x, np.generic):
        dtype = dt.to_dtype(x.dtype)
        return build.const(x, dtype), False
    if isinstance(x, int):
        if not -(1 << 63) <= x < 1 << 63:
            if 0 <= x < 1 << 64:
                return build.const(np.uint64(x), dt.uint64), False
            raise OverflowError(f"the integer {x} does not fit in 64 bits")
        return build.const(x, dt.int64), True
    if isinstance(x, float):
        return build.const(x, dt.default_float()), True
    return build.const(x, dt.default_complex()), True


def is_scalar(x: Any) -> bool:
    """A Python number or NumPy scalar."""
    return isinstance(x, bool | int | float | complex | np.generic)


PROTOCOLS = ("__fgrad_array__", "__jax_array__")


def unwrapped(x: Any) -> Any:
    """The array that an object stands for by `__fgrad_array__`; anything else as it is."""
    if isinstance(x, Array | np.ndarray | np.generic | bool | int | float | complex | list | tuple):
        return x
    for protocol in PROTOCOLS:
        if hasattr(x, protocol) and not isinstance(x, type):
            return getattr(x, protocol)()
    return x


def lift(x: ArrayLike) -> Tracer:
    """The tracer of anything array-like: arrays, NumPy arrays (copied now), scalars, objects with `__fgrad_array__`.

    Raises TypeError for anything else, lists and None included.
    """
    if type(x) is Tracer:
        return x
    if isinstance(x, Array):
        return Tracer(x.as_node(), x.aval.weak)
    if isinstance(x, np.ndarray):
        assert hooks.from_host is not None
        return Tracer(hooks.from_host(x).as_node())
    if is_scalar(x):
        return Tracer(*scalar_node(x))
    for protocol in PROTOCOLS:
        if hasattr(x, protocol):
            return lift(getattr(x, protocol)())
    if hasattr(x, "__array__") and not isinstance(x, type):
        return lift(np.asarray(x))
    if isinstance(x, list | tuple):
        raise ArgumentError(
            f"expected an array or a number, got a {type(x).__name__} of {len(x)}; convert it with fgrad.numpy.array"
        )
    raise ArgumentError(f"expected an array or a number, got {describe(x)}")


def aval_of(x: Any) -> Aval:
    """The aval of an array, a number, or anything with `shape` and `dtype` (a ShapeDtypeStruct)."""
    if hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, Array | np.generic):
        return Aval(dt.to_dtype(x.dtype), tuple(x.shape), bool(getattr(x, "weak_type", False)))
    return lift(x).aval


def is_arraylike(x: Any) -> bool:
    """Whether `lift` takes `x`."""
    return (
        isinstance(x, Array | np.ndarray)
        or is_scalar(x)
        or hasattr(x, "__fgrad_array__")
        or hasattr(x, "__jax_array__")
        or (hasattr(x, "__array__") and not isinstance(x, type))
    )


def scalar_fits(x: Any, dtype: DType) -> None:
    """Raise OverflowError when the Python int `x` is out of the range of an integer `dtype`."""
    if isinstance(x, int) and not isinstance(x, bool) and dtype.is_int:
        lo, hi = dt.int_range(dtype)
        if not lo <= x <= hi:
            raise OverflowError(f"the Python integer {x} does not fit in {dtype} ({lo} to {hi})")


def cast_node(x: ArrayLike, dtype: DType) -> UOp:
    """The node of `x` with that dtype; Python scalars become constants of it at once, with all their digits."""
    if is_scalar(x) and not isinstance(x, np.generic):
        scalar_fits(x, dtype)
        if isinstance(x, complex) and not dtype.is_complex:
            return build.cast(build.const(x, dt.complex128), dtype)
        if isinstance(x, float) and not dtype.is_inexact:
            return build.cast(build.const(x, dt.float64), dtype)
        return build.const(x, dtype)
    t = lift(x)
    return build.cast(t.node if t.wide is None or dtype.itemsize < 8 else t.wide, dtype)


def cast_real(x: ArrayLike, dtype: DType) -> UOp:
    """As `cast_node`; raises DtypeError where an imaginary part would be lost."""
    if not dtype.is_complex and lift(x).node.dtype.is_complex:
        raise note_user_line(DtypeError(f"complex values cannot be written into an array of {dtype}; take .real first"))
    return cast_node(x, dtype)


def promoted(*xs: ArrayLike, least: DType | None = None) -> tuple[list[UOp], DType, bool]:
    """-> (nodes of one dtype, that dtype, weak), by the promotion lattice. Shapes are left alone.

    least   a weak dtype to promote with as well: `default_float()` makes integers inexact
    """
    kinds: list[tuple[DType, bool]] = []
    lifted: list[Any] = []
    for x in xs:
        if isinstance(x, int) and not isinstance(x, bool):  # may be beyond int64: the other side decides
            kinds.append((dt.int64, True))
            lifted.append(x)
        else:
            t = lift(x)
            kinds.append((t.node.dtype, t.weak))
            lifted.append(x if is_scalar(x) and not isinstance(x, np.generic) else t)
    dtype, weak = dt.promote(*kinds)
    if least is not None and not dtype.is_inexact:
        dtype, weak = dt.promote((dtype, weak), (least, True))
        weak = weak and all(w for _, w in kinds)
    return [cast_node(x, dtype) for x in lifted], dtype, weak


def broadcast(nodes: Sequence[UOp]) -> list[UOp]:
    """All nodes at their common shape."""
    shape = build.broadcast_shapes(*[n.shape for n in nodes])
    return [build.broadcast_to(n, shape) for n in nodes]


__all__ = [
    "ArrayLike",
    "ConcretizationError",
    "Tracer",
    "aval_of",
    "broadcast",
    "cast_node",
    "cast_real",
    "is_arraylike",
    "is_scalar",
    "lift",
    "promoted",
    "scalar_fits",
    "scalar_node",
    "unwrapped",
]
