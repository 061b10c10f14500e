"""Operators, methods and properties of arrays: the public functions, attached to `Array` when this
package is imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fgrad.errors import DtypeError, describe, note_user_line
from fgrad.numpy import (
    analysis,
    at,
    bits,
    creation,
    dtypes,
    elementwise,
    extremes,
    gathering,
    indexing,
    logic,
    matrices,
    moments,
    powers,
    products,
    reductions,
    repeating,
    rounding,
    running,
    searching,
    shapes,
    sorting,
)
from fgrad.numpy.common import is_traced, lift, public
from fgrad.run import dlpack
from fgrad.run.array import DeviceArray
from fgrad.run.placement import device_put
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trim, trimmed
from fgrad.trace.tracer import Tracer, is_arraylike
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import to_dtype

__all__ = ["bitcast_view"]

Binary = Callable[[Any, Any], Any]


_NO_OPERANDS = (list, tuple, str, dict, type(None))


def _operator(f: Binary, reflected: bool = False, arithmetic: bool = True) -> Binary:
    """The special method of `f`; other types get their turn by NotImplemented."""

    def method(self: Array, other: Any) -> Any:
        try:
            if not is_arraylike(other):
                # of a list, * may also mean its repetition; derived classes may have operators of their own
                if arithmetic and type(other) in _NO_OPERANDS and not (f is elementwise.multiply and reflected):
                    raise TypeError(
                        f"{f.__name__}: {describe(other)} is no operand of an array; make an array of it with "
                        "fgrad.numpy.array"
                    )
                return NotImplemented
            return f(other, self) if reflected else f(self, other)
        except Exception as error:
            trim(error)
            raise

    return method


def _power(x: Any, y: Any) -> Any:
    return powers.power(x, y)


OPERATORS: dict[str, Binary] = {
    "add": elementwise.add, "sub": elementwise.subtract, "mul": elementwise.multiply,
    "truediv": elementwise.divide,
    "floordiv": elementwise.floor_divide, "mod": elementwise.mod, "divmod": elementwise.divmod,
    "pow": _power,
    "matmul": products.matmul, "and": bits.bitwise_and, "or": bits.bitwise_or,
    "xor": bits.bitwise_xor,
    "lshift": bits.left_shift, "rshift": bits.right_shift,
}  # fmt: skip
COMPARISONS: dict[str, Binary] = {
    "eq": logic.equal, "ne": logic.not_equal, "lt": logic.less, "le": logic.less_equal,
    "gt": logic.greater,
    "ge": logic.greater_equal,
}  # fmt: skip


def _setitem(self: Array, idx: Any, value: Any) -> None:
    raise note_user_line(
        TypeError("arrays are immutable; write `x = x.at[idx].set(value)` instead of `x[idx] = value`, or use a Ref")
    )


def _delitem(self: Array, idx: Any) -> None:
    raise note_user_line(
        TypeError("arrays are immutable; write `x = fgrad.numpy.delete(x, idx)` instead of `del x[idx]`")
    )


def _hash(self: Array) -> int:
    raise TypeError(
        "unhashable type: arrays are compared element by element; as a key of a dictionary or a static argument use "
        "Python values, such as x.item() or tuple(x.tolist())"
    )


def _iter(self: Array) -> Iterator[Array]:
    if not self.ndim:
        raise TypeError("iteration over a 0-d array")
    return iter([indexing.getitem(self, i) for i in range(self.shape[0])])


def _reshape(self: Array, *shape: Any, order: str = "C") -> Array:
    """The elements in order under another shape, given as a tuple or as separate sizes."""
    return shapes.reshape(self, shape=shape[0] if len(shape) == 1 else shape, order=order)


def _transpose(self: Array, *axes: Any) -> Array:
    """The axes in another order, given as a tuple or separately."""
    given = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], tuple | list)) else axes
    return shapes.transpose(self, axes=given if given else None)


def _flatten(self: Array, order: str = "C") -> Array:
    """All elements on one axis, in a copy."""
    return shapes.ravel(self, order)


def _astype(self: Array, dtype: Any, copy: bool = False, device: Any = None) -> Array:
    """The same numbers in another dtype."""
    return dtypes.astype(self, dtype, copy=copy, device=device)


@public(static=("dtype",))
def _bitcast(x: Any, dtype: dt.DType) -> Array:
    node = lift(x).node
    have, want = node.dtype.itemsize, dtype.itemsize
    if node.dtype is dt.bool_:
        node = build.cast(node, dt.uint8)
    if dtype is dt.bool_:
        return Tracer(build.cast(build.bitcast(node, dt.uint8), dt.bool_))
    if have == want:
        return Tracer(build.bitcast(node, dtype))
    raise note_user_line(
        DtypeError(
            f"view: {x.aval.dtype if isinstance(x, Array) else node.dtype} and {dtype} have "
            "different widths, which "
            "needs a concrete array; use fgrad.lax.bitcast_convert_type"
        )  # fmt: skip
    )


def bitcast_view(self: Array, dtype: Any = None) -> Array:
    """The bytes read as another dtype; of another width the last axis grows or shrinks (concrete
    arrays only).
    """
    if dtype is None:
        return self
    target = to_dtype(dtype)
    if target.itemsize == self.aval.dtype.itemsize or is_traced(self):
        return _bitcast(self, target)
    return creation.array(np.ascontiguousarray(self.concrete()).view(target.np))


def _round(self: Array, decimals: int = 0, out: None = None) -> Array:
    """To that many decimals."""
    return rounding.round(self, decimals, out)


def _builtin_round(self: Array, ndigits: int | None = None) -> Any:
    rounded = rounding.round(self, ndigits or 0)
    return dtypes.astype(rounded, int) if ndigits is None else rounded


def _clip(self: Array, min: Any = None, max: Any = None, **bounds: Any) -> Array:
    """minimum(maximum(x, min), max)."""
    return extremes.clip(self, min, max, **bounds)


def _copy(self: Array) -> Array:
    """A copy, in memory of its own."""
    return creation.array(self)


def _namespace(self: Array, *, api_version: str | None = None) -> Any:
    return NAMESPACE[0]


NAMESPACE: list[Any] = []  # fgrad.numpy itself, entered by the package


def _to_device(self: Array, device: Any, *, stream: Any = None) -> Array:
    """The array on another device; itself if it is there already."""
    moved: Array = device_put(self, device)
    return moved


def _block_until_ready(self: Array) -> Array:
    """The array itself: a traced value has nothing to wait for."""
    return self


def _dlpack(
    self: Array,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """The DLPack capsule of the elements on the host: shared read-only with readers of version 1.0, else a copy."""
    if not isinstance(self, DeviceArray):
        self.concrete()  # raises for a tracer
        raise BufferError("only concrete arrays are exported; return the value from the traced function first")
    return dlpack.export(self, max_version, dl_device, copy)


def _dlpack_device(self: Array) -> tuple[int, int]:
    return dlpack.CPU


METHODS: dict[str, Callable[..., Any]] = {
    "all": reductions.all, "any": reductions.any, "argmax": reductions.argmax,
    "argmin": reductions.argmin,
    "argpartition": sorting.argpartition, "argsort": sorting.argsort, "choose": gathering.choose,
    "clip": _clip,
    "compress": lambda self, condition, axis=None,
    **more: gathering.compress(condition, self, axis, **more),
    "conj": analysis.conjugate, "conjugate": analysis.conjugate, "copy": _copy,
    "cumprod": running.cumprod,
    "cumsum": running.cumsum, "diagonal": matrices.diagonal, "dot": products.dot,
    "flatten": _flatten,
    "max": reductions.max, "mean": moments.mean, "min": reductions.min,
    "nonzero": searching.nonzero,
    "partition": sorting.partition, "prod": reductions.prod, "ptp": reductions.ptp,
    "ravel": shapes.ravel,
    "repeat": repeating.repeat, "reshape": _reshape, "round": _round,
    "searchsorted": searching.searchsorted,
    "sort": sorting.sort, "squeeze": shapes.squeeze, "std": moments.std, "sum": reductions.sum,
    "swapaxes": shapes.swapaxes, "take": gathering.take, "trace": reductions.trace,
    "transpose": _transpose,
    "var": moments.var, "view": bitcast_view, "astype": _astype, "to_device": _to_device,
}  # fmt: skip

PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "T": lambda self: shapes.transpose(self),
    "mT": lambda self: shapes.matrix_transpose(self),
    "real": lambda self: analysis.real(self),
    "imag": lambda self: analysis.imag(self),
    "at": lambda self: at.At(self),
    "flat": lambda self: shapes.ravel(self),
}
DOCS = {
    "T": "The array with its axes reversed.", "mT": "The array with its last two axes exchanged.",
    "real": "The real part.", "imag": "The imaginary part.",
    "at": "`x.at[idx].set(value)`, `.add`, `.get` ..: parts replaced in a new array.",
    "flat": "All elements on one axis.",
}  # fmt: skip


def _attach() -> None:
    for name, f in OPERATORS.items():
        setattr(Array, f"__{name}__", _operator(f))
        setattr(Array, f"__r{name}__", _operator(f, reflected=True))
    for name, f in COMPARISONS.items():
        setattr(Array, f"__{name}__", _operator(f, arithmetic=False))
    special: dict[str, Any] = {
        "__neg__": elementwise.negative, "__pos__": elementwise.positive,
        "__abs__": elementwise.abs,
        "__invert__": bits.invert, "__getitem__": indexing.getitem, "__setitem__": _setitem,
        "__delitem__": _delitem,
        "__iter__": _iter,
        "__round__": _builtin_round, "__array_namespace__": _namespace, "__dlpack__": _dlpack,
        "__dlpack_device__": _dlpack_device, "__contains__": _contains, "__hash__": _hash,
    }  # fmt: skip
    for name, f in {**special, **METHODS}.items():
        setattr(Array, name, _method(f) if hasattr(f, "dispatcher") else trimmed(f))
    for name, get in PROPERTIES.items():
        setattr(Array, name, property(get, doc=DOCS[name]))
    if not hasattr(Array, "block_until_ready"):
        setattr(Tracer, "block_until_ready", _block_until_ready)  # noqa: B010


# Parameters that take arrays. All others are static and go by keyword, the short way through `public`.
OPERANDS = frozenset(
    {"b", "v", "initial", "where", "out", "ddof", "mean", "correction", "sorter", "condition", "choices"}
)


def _method(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose first argument is the array."""
    names = list(inspect.signature(f).parameters)[1:]
    first_static = next((k for k, n in enumerate(names) if n not in OPERANDS), len(names))

    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        try:
            if first_static < len(args) <= len(names):  # of more arguments f says what it takes
                for name, value in zip(names[first_static:], args[first_static:], strict=False):
                    if name in kwargs:
                        raise TypeError(f"{f.__name__} got multiple values for argument {name!r}")
                    kwargs[name] = value
                args = args[:first_static]
            return f(self, *args, **kwargs)
        except Exception as error:
            trim(error)
            raise

    method.__name__ = f.__name__
    method.__doc__ = f.__doc__
    return method


def _contains(self: Array, value: Any) -> bool:
    return bool(reductions.any(logic.equal(self, value)))


_attach()
