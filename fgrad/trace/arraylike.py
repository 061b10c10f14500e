"""Array: what concrete arrays and tracers have in common.

`fgrad.Array` is this class, so `isinstance(x, fgrad.Array)` holds for both. The operators and the NumPy methods are
attached by `fgrad.numpy.methods` when the package is imported: they are the public functions, looked up at call
time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.errors import ConcretizationError, LeakedTracerError, note_user_line
from fgrad.trace.frames import trim_methods
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp

# What to do instead of asking a tracer for its value, by what the value is wanted for.
DECIDE = (
    "Choose between values with fgrad.numpy.where, between computations with fgrad.lax.cond, repeat one with "
    "fgrad.lax.while_loop"
)
COUNT = "Repeat something a computed number of times with fgrad.lax.fori_loop; sizes and shapes must be Python integers"
INTEGER = f"{COUNT}; for another dtype, try using `x.astype(int)`"
INDEX = f"The __index__() method was called on traced array: {COUNT[0].lower()}{COUNT[1:]}"
COMPUTE = "Use the functions of fgrad.numpy instead of those of math or float, on the array itself"
LOOK = "Compute with the array itself; to look at the value use fgrad.debug.print"


class Array:
    """An n-dimensional array: immutable, of one dtype. Made by `fgrad.numpy.array` and friends, never directly.

    Its methods are the functions of `fgrad.numpy` of the same name; `x.at[index]` gives changed copies. Operations
    return at once: `np.asarray`, `float`, `print` and `block_until_ready` wait for the values.

    >>> x = fnp.arange(6.0).reshape(2, 3)
    >>> x.shape, x.dtype, isinstance(x, Array)
    ((2, 3), dtype('float32'), True)
    >>> (x * 2).sum(axis=1)
    Array([ 6., 24.], dtype=float32)
    >>> x.at[0, 0].set(9.0)[0]
    Array([9., 1., 2.], dtype=float32)
    """

    __slots__ = ()
    __array_priority__ = 100  # NumPy's operators leave the work to ours
    if TYPE_CHECKING:  # what fgrad.numpy.methods attaches
        __add__: Any
        __sub__: Any
        __mul__: Any
        __truediv__: Any
        __floordiv__: Any
        __mod__: Any
        __divmod__: Any
        __pow__: Any
        __matmul__: Any
        __and__: Any
        __or__: Any
        __xor__: Any
        __lshift__: Any
        __rshift__: Any
        __radd__: Any
        __rsub__: Any
        __rmul__: Any
        __rtruediv__: Any
        __rfloordiv__: Any
        __rmod__: Any
        __rdivmod__: Any
        __rpow__: Any
        __rmatmul__: Any
        __rand__: Any
        __ror__: Any
        __rxor__: Any
        __rlshift__: Any
        __rrshift__: Any
        __lt__: Any
        __le__: Any
        __gt__: Any
        __ge__: Any
        __neg__: Any
        __pos__: Any
        __abs__: Any
        __invert__: Any
        __getitem__: Any
        __iter__: Any
        T: Any
        mT: Any
        real: Any
        imag: Any
        at: Any
        flat: Any
        all: Any
        any: Any
        argmax: Any
        argmin: Any
        argsort: Any
        astype: Any
        clip: Any
        conj: Any
        copy: Any
        cumsum: Any
        cumprod: Any
        diagonal: Any
        dot: Any
        flatten: Any
        max: Any
        mean: Any
        min: Any
        nonzero: Any
        prod: Any
        ravel: Any
        repeat: Any
        reshape: Any
        round: Any
        sort: Any
        squeeze: Any
        std: Any
        sum: Any
        swapaxes: Any
        take: Any
        trace: Any
        transpose: Any
        var: Any

    @property
    def aval(self) -> Aval:
        """dtype, shape and weakness."""
        raise NotImplementedError

    def as_node(self) -> UOp:
        """The node that stands for this array in a program."""
        raise NotImplementedError

    def concrete(self, way_out: str = "") -> Any:
        """The NumPy array of this value.

        way_out   what the error of a tracer without one suggests

        Raises ConcretizationError for a tracer without a value, LeakedTracerError where its trace has ended.
        """
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        dtype: np.dtype[Any] = self.aval.dtype.np
        return dtype

    @property
    def weak_type(self) -> bool:
        """Whether the dtype came from Python scalars only and gives way in promotion."""
        return self.aval.weak

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.aval.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.aval.nbytes

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of a 0-d array")
        return self.aval.shape[0]

    def _scalar(self, what: str, way_out: str) -> Any:
        if self.aval.size != 1:
            raise TypeError(f"only arrays of one element convert to a Python scalar; {what} got shape {self.shape}")
        return self.concrete(way_out).reshape(())[()]

    def __bool__(self) -> bool:
        if self.aval.size != 1:
            raise ValueError(f"the truth of an array of shape {self.shape} is ambiguous; use .any() or .all()")
        return bool(self._scalar("bool()", DECIDE))

    def __int__(self) -> int:
        return int(self._scalar("int()", INTEGER))

    def __float__(self) -> float:
        return float(self._scalar("float()", f"{COMPUTE}; for another dtype, try using `x.astype(float)`"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex()", f"{COMPUTE}; for another dtype, try using `x.astype(complex)`"))

    def __index__(self) -> int:
        if not (self.aval.dtype.is_int and self.aval.shape == ()):
            raise TypeError(f"only 0-d integer arrays can be used as an index, got {self.aval}")
        return int(self._scalar("index", INDEX))

    def item(self, *index: int) -> Any:
        """The element (at `index`) as a Python scalar."""
        return self.concrete(LOOK).item(*index)

    def tolist(self) -> Any:
        """The elements as nested Python lists."""
        return self.concrete(LOOK).tolist()

    def __format__(self, spec: str) -> str:
        if self.aval.shape == () and spec:
            return format(self.concrete(LOOK)[()], spec)
        return str(self)


trim_methods(Array, ("__len__", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__format__"))


def refuse_value(aval: Aval, waiting: list[str], origins: str, way_out: str) -> Exception:
    """The error for a tracer that was asked for its value: it depends on `origins`, the stages `waiting` are open."""
    if not waiting:
        return note_user_line(
            LeakedTracerError(
                f"a traced value ({aval}, made from {origins}) was asked for its value after its trace had ended; "
                "return it from the function instead of storing it outside"
            )
        )
    fixed = ", or mark an argument that is a Python value static (static_argnames)"
    if " of jit(" not in origins or way_out not in ("", DECIDE, COUNT, INTEGER, INDEX):
        fixed = ""
    return note_user_line(
        ConcretizationError(
            f"a traced value ({aval}) was asked for its value inside {waiting[-1]}, where it has none yet: it depends "
            f"on {origins}. {way_out or 'Compute with fgrad.numpy and fgrad.lax on the array itself'}{fixed}"
        )
    )
