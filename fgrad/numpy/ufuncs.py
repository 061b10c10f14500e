"""Functions of scalars as NumPy's ufuncs: broadcast over arrays, with `reduce`, `accumulate`, `outer`, `at`.

`frompyfunc` makes one of any function; the elementwise functions of `fgrad.numpy` have the same methods.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import fgrad
from fgrad import numpy as fnp
from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import as_array, axes_of, axis_of
from fgrad.numpy.functional import vectorize
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike

_REDUCTIONS: dict[str, Any] = {
    "add": fnp.sum,
    "multiply": fnp.prod,
    "maximum": fnp.max,
    "minimum": fnp.min,
    "logical_and": fnp.all,
    "logical_or": fnp.any,
}
_UPDATES = {"add": "add", "subtract": "subtract", "multiply": "multiply", "maximum": "max", "minimum": "min"}


def scan(step: Callable[..., Any], init: Any, xs: Any) -> Any:
    """`fgrad.lax.scan`, loaded when it is first needed: `import fgrad` shall stay quick."""
    return fgrad.lax.scan(step, init, xs)


class _Kind(type):
    """Functions of `fgrad.numpy` that have the methods count as instances."""

    def __instancecheck__(cls, x: object) -> bool:
        return type(x) is ufunc or type(getattr(x, "ufunc", None)) is ufunc


class ufunc(metaclass=_Kind):  # noqa: N801  NumPy's name
    """A function of `nin` scalars with `nout` results, broadcast over arrays. Make one with `frompyfunc`.

    identity   what the function leaves others alone beside, or None

    >>> add = fnp.frompyfunc(lambda x, y: x + y, 2, 1, identity=0)
    >>> add.nin, add.reduce(fnp.arange(4))
    (2, Array(6, dtype=int64))
    """

    nin: int
    nout: int
    identity: Any
    __name__: str
    _func: Any
    _call: Any

    def __init__(
        self, func: Callable[..., Any], nin: int, nout: int, *, identity: Any = None, call: Any = None
    ) -> None:
        put = partial(object.__setattr__, self)
        put("_func", func)
        put("_call", call or vectorize(func))
        put("nin", nin)
        put("nout", nout)
        put("identity", identity)
        put("__name__", getattr(func, "__name__", "ufunc"))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} of a ufunc cannot be changed")

    @property
    def nargs(self) -> int:
        """Number of arguments."""
        return self.nin

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r}>"

    def _key(self) -> Any:
        return (self._func, self.nin, self.nout, self.identity)

    def __eq__(self, other: object) -> bool:
        return type(other) is ufunc and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __call__(self, *args: ArrayLike, out: None = None, where: None = None) -> Any:
        if out is not None or where is not None:
            raise NotImplementedError("a ufunc with out= or where=; use fgrad.numpy.where on the result")
        if len(args) != self.nin:
            raise note_user_line(ArgumentError(f"{self!r} takes {self.nin} arguments, got {len(args)}"))
        return self._call(*args)

    def _binary(self, method: str) -> None:
        if (self.nin, self.nout) != (2, 1):
            raise note_user_line(ArgumentError(f"{method} needs two arguments and one result, which {self!r} has not"))

    def reduce(
        self,
        a: ArrayLike,
        axis: Any = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """The elements along `axis` (or axes; None: all) combined from the front, from `initial` on if it is given.

        where   which elements count; a function without identity then needs `initial`

        Raises ShapeError for no elements and neither identity nor initial.
        """
        self._binary("reduce")
        if out is not None:
            raise NotImplementedError("reduce with out=; arrays are immutable")
        known = _REDUCTIONS.get(self.__name__) if self._known() else None
        x = as_array(a)
        if known is not None and (self.identity is not None or initial is not None or where is None):
            options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
            options |= {k: v for k, v in (("dtype", dtype), ("initial", initial), ("where", where)) if v is not None}
            if not (self.__name__.startswith("logical") and (dtype is not None or initial is not None)):
                result: Array = known(x, **options)
                return result
        if dtype is not None:
            x = x.astype(dtype)
        axes = axes_of(axis, x.ndim, "reduce")
        if where is not None and self.identity is None and initial is None:
            raise note_user_line(ArgumentError(f"reduce of {self!r} with where= needs initial=: it has no identity"))
        rest = [i for i in range(x.ndim) if i not in axes]
        rows = fnp.reshape(fnp.transpose(x, (*axes, *rest)), (-1, *[x.shape[i] for i in rest]))
        masks = None
        if where is not None:
            full = fnp.broadcast_to(as_array(where), x.shape)
            masks = fnp.reshape(fnp.transpose(full, (*axes, *rest)), rows.shape)
        y = self._folded(rows, initial, masks)
        return fnp.expand_dims(y, axes) if keepdims and axes else y

    def _known(self) -> bool:
        return getattr(fnp, self.__name__, None) is self._func

    def _folded(self, rows: Any, initial: Any, masks: Any) -> Any:
        n = rows.shape[0]
        start = initial if initial is not None else self.identity
        if start is None:
            if not n:
                raise note_user_line(ShapeError(f"reduce of no elements by {self!r}, which has no identity"))
            kind = self(rows[0], rows[0]).dtype
            first, rows = rows[0].astype(kind), rows[1:].astype(kind)
        else:
            kind = rows.dtype if not n else self(rows[0], rows[0]).dtype
            first, rows = fnp.broadcast_to(fnp.asarray(start, dtype=kind), rows.shape[1:]), rows.astype(kind)

        def step(carry: Any, row: Any) -> Any:
            value, keep = row
            new = self(carry, value).astype(kind)
            return (new if keep is None else fnp.where(keep, new, carry)), None

        return scan(step, first, (rows, masks))[0]

    def accumulate(self, a: ArrayLike, axis: int = 0, dtype: Any = None, out: None = None) -> Array:
        """All the intermediate results of `reduce` along one axis."""
        self._binary("accumulate")
        x = as_array(a)
        if out is not None or axis is None:
            raise NotImplementedError("accumulate with out=, or over all axes; give the axis, and bind the result")
        place = axis_of(axis, x.ndim, "accumulate")
        if dtype is not None:
            x = x.astype(dtype)
        rows = fnp.moveaxis(x, place, 0)
        if not rows.shape[0]:
            return x
        kind = self(rows[0], rows[0]).dtype
        rows = rows.astype(kind)

        def step(carry: Any, row: Any) -> Any:
            new = self(carry, row).astype(kind)
            return new, new

        later = scan(step, rows[0], rows[1:])[1]
        return fnp.moveaxis(fnp.concatenate([rows[:1], later]), 0, place)

    def outer(self, A: ArrayLike, B: ArrayLike) -> Array:  # noqa: N803  NumPy's names
        """The function of all pairs: [*s], [*t] -> [*s, *t]."""
        self._binary("outer")
        x, y = as_array(A), as_array(B)
        result: Array = self(fnp.reshape(x, (*x.shape, *[1] * y.ndim)), y)
        return result

    def at(self, a: ArrayLike, indices: Any, b: ArrayLike | None = None, *, inplace: bool = False) -> Array:
        """A new array with the function applied at `indices`, once for every time that a position is there."""
        if inplace:
            raise NotImplementedError("at with inplace=True; arrays are immutable: use the result, with inplace=False")
        x = as_array(a)
        if self.nin == 1:
            return x.at[indices].apply(self)
        self._binary("at")
        if b is None:
            raise note_user_line(ArgumentError(f"at of {self!r} needs the second operand"))
        if self._known() and self.__name__ in _UPDATES:
            result: Array = getattr(x.at[indices], _UPDATES[self.__name__])(b)
            return result
        places = fnp.reshape(fnp.arange(x.size), x.shape)[indices]
        values = fnp.broadcast_to(as_array(b), places.shape)

        def step(flat: Any, one: Any) -> Any:
            place, value = one
            return flat.at[place].set(self(flat[place], value).astype(x.dtype)), None

        flat, _ = scan(step, fnp.ravel(x), (fnp.ravel(places), fnp.ravel(values)))
        return fnp.reshape(flat, x.shape)

    def reduceat(self, a: ArrayLike, indices: ArrayLike, axis: int = 0, dtype: Any = None, out: None = None) -> Array:
        """`reduce` of the slices from each index to the next (the last: to the end), along one axis.

        Where the next index is not larger the result is the element at the index itself.
        """
        self._binary("reduceat")
        if out is not None:
            raise NotImplementedError("reduceat with out=; arrays are immutable")
        x, starts = as_array(a), as_array(indices)
        if starts.ndim != 1:
            raise note_user_line(ShapeError(f"reduceat: the indices must be a vector, got shape {starts.shape}"))
        if dtype is not None:
            x = x.astype(dtype)
        place = axis_of(axis, x.ndim, "reduceat")
        rows = fnp.moveaxis(x, place, 0)
        n = rows.shape[0]
        ends = fnp.concatenate([starts[1:], fnp.full_like(starts[:1], n)])
        first = fnp.take(rows, starts, axis=0)
        kind = self(rows[0], rows[0]).dtype if n else rows.dtype
        column = (-1, *[1] * (rows.ndim - 1))

        def step(carry: Any, one: Any) -> Any:
            position, row = one
            active = fnp.reshape((starts < position) & (position < ends), column)
            return fnp.where(active, self(carry, row).astype(kind), carry), None

        result, _ = scan(step, first.astype(kind), (fnp.arange(n, dtype=starts.dtype), rows.astype(kind)))
        return fnp.moveaxis(result, 0, place)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A ufunc of a function of scalars.

    nin, nout   numbers of arguments and results
    identity    the value that the function leaves others alone beside, which `reduce` starts from

    >>> import fgrad.numpy as fnp
    >>> frompyfunc(lambda x, y: x + 2 * y, 2, 1).outer(fnp.array([1, 2]), fnp.array([10, 20]))
    Array([[21, 41],
           [22, 42]], dtype=int64)
    """
    if not callable(func):
        raise note_user_line(ArgumentError(f"frompyfunc takes a function, got {func!r}"))
    return ufunc(func, int(nin), int(nout), identity=identity)


def _attach() -> None:
    """Give the elementwise functions of `fgrad.numpy` the methods and numbers of NumPy's ufuncs."""
    for name, theirs in tuple(vars(np).items()):  # not dir: asking for every name would import NumPy's lazy modules
        if not isinstance(theirs, np.ufunc) or theirs.signature is not None:
            continue
        ours = getattr(fnp, name, None)
        if not hasattr(ours, "__code__"):
            continue
        function: Any = ours
        wrapped = ufunc(function, theirs.nin, theirs.nout, identity=theirs.identity, call=function)
        function.ufunc = wrapped
        function.nin, function.nout, function.nargs = wrapped.nin, wrapped.nout, wrapped.nin
        function.identity = wrapped.identity
        for method in ("reduce", "accumulate", "outer", "at", "reduceat"):
            setattr(function, method, getattr(wrapped, method))


_attach()
__all__ = ["frompyfunc", "ufunc"]
