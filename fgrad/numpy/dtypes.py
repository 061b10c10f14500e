"""Dtypes: their names, promotion, limits, and what an array-like's dtype is."""

from __future__ import annotations

from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from fgrad.errors import note_user_line
from fgrad.numpy.common import DTypeLike, lift, placed, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, is_arraylike, is_scalar, scalar_node
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import Kind, to_dtype

_T = TypeVar("_T")


class _Called(type):
    """Of scalar types that convert traced values too; otherwise they are, and equal, NumPy's."""

    def __call__(cls, *args: Any) -> Any:
        numpy_type = cls.__mro__[1]
        if len(args) == 1 and isinstance(args[0], Array):
            return args[0].astype(numpy_type)
        return numpy_type(*args)

    def __eq__(cls, other: object) -> bool:
        # anything else may know: a dtype, on the right too, equals its scalar type
        return True if other is cls or other is cls.__mro__[1] else NotImplemented

    def __hash__(cls) -> int:
        return hash(cls.__mro__[1])

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, cls.__mro__[1])

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.__mro__[1])


def _called(numpy_type: type[_T], name: str = "") -> type[_T]:
    """`numpy_type`, under `name` if that is not its own, made to convert arrays and traced values."""
    name = name or numpy_type.__name__
    doc = f"""The dtype of {name} numbers; called, it converts numbers, arrays and traced values.

    >>> fnp.{name}(fnp.array([0, 1])).dtype == fnp.{name}
    True
    """
    made: Any = _Called(name, (numpy_type,), {"__module__": "fgrad.numpy", "__slots__": (), "__doc__": doc})
    out: type[_T] = made
    return out


bool_ = _called(np.bool_, "bool_")
int8, int16, int32, int64 = _called(np.int8), _called(np.int16), _called(np.int32), _called(np.int64)
uint8, uint16, uint32, uint64 = _called(np.uint8), _called(np.uint16), _called(np.uint32), _called(np.uint64)
float8_e4m3fn, float8_e5m2 = _called(ml_dtypes.float8_e4m3fn), _called(ml_dtypes.float8_e5m2)
float8_e3m4, float8_e4m3 = _called(ml_dtypes.float8_e3m4), _called(ml_dtypes.float8_e4m3)
float8_e4m3b11fnuz, float8_e4m3fnuz = _called(ml_dtypes.float8_e4m3b11fnuz), _called(ml_dtypes.float8_e4m3fnuz)
float8_e5m2fnuz = _called(ml_dtypes.float8_e5m2fnuz)
# Names only: an array of them raises DtypeError, which says what to use.
float8_e8m0fnu, float4_e2m1fn = ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn
float6_e2m3fn, float6_e3m2fn = ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn
int1, int2, int4 = ml_dtypes.int1, ml_dtypes.int2, ml_dtypes.int4
uint1, uint2, uint4 = ml_dtypes.uint1, ml_dtypes.uint2, ml_dtypes.uint4
float16, bfloat16 = _called(np.float16), _called(ml_dtypes.bfloat16)
float32, float64 = _called(np.float32), _called(np.float64)
complex64, complex128 = _called(np.complex64), _called(np.complex128)
int_, uint, single, double, csingle, cdouble = (
    int64,
    uint64,
    float32,
    float64,
    complex64,
    complex128,
)
dtype = np.dtype
generic, number, integer, signedinteger, unsignedinteger = (
    np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger,
)  # fmt: skip
inexact, floating, complexfloating = np.inexact, np.floating, np.complexfloating
flexible, character, object_ = np.flexible, np.character, np.object_
ComplexWarning = np.exceptions.ComplexWarning

__all__ = [
    "ComplexWarning", "character", "flexible", "object_",
    "astype", "bfloat16", "bool_", "can_cast", "cdouble", "complex128", "complex64",
    "complexfloating", "csingle", "double", "dtype", "finfo", "float16", "float32", "float64",
    "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "floating", "generic", "iinfo", "inexact", "int1", "int16", "int2", "int32", "int4", "int64", "int8", "int_",
    "integer", "isdtype", "iscomplexobj", "isrealobj", "isscalar",
    "issubdtype", "number", "promote_types", "result_type", "signedinteger", "single", "uint",
    "uint1", "uint16", "uint2", "uint32", "uint4", "uint64", "uint8", "unsignedinteger",
]  # fmt: skip


def _kind(x: Any) -> tuple[dt.DType, bool]:
    if isinstance(x, Array):
        return x.aval.dtype, x.aval.weak
    if is_scalar(x):
        node, weak = scalar_node(x)
        return node.dtype, weak
    if isinstance(x, type) and x in (
        int,
        float,
        complex,
    ):  # as in promote_types(int, ..): the weak kinds
        return to_dtype(x), True
    if isinstance(x, np.ndarray):
        return to_dtype(x.dtype), False
    return to_dtype(x), False


def result_type(*args: Any) -> np.dtype[Any]:
    """The dtype that these arrays, numbers and dtypes meet in.

    >>> result_type(np.int32, 1.0)
    dtype('float32')
    """
    if not args:
        raise ValueError("result_type needs at least one array or dtype")
    promoted, _ = dt.promote(*[_kind(x) for x in args])
    out: np.dtype[Any] = promoted.np
    return out


def promote_types(a: DTypeLike, b: DTypeLike) -> np.dtype[Any]:
    """The dtype that two dtypes meet in; raises DtypeError if there is none.

    >>> promote_types("int32", "float16")
    dtype('float16')
    >>> promote_types("uint8", "int8")
    dtype('int16')
    """
    return result_type(np.dtype(to_dtype(a).np) if not isinstance(a, type) else a,
                       np.dtype(to_dtype(b).np) if not isinstance(b, type) else b)  # fmt: skip


def _extended(x: DTypeLike) -> bool:
    return to_dtype(x).np.isbuiltin != 1


def can_cast(from_: Any, to: DTypeLike, casting: str = "safe") -> bool:
    """Whether a cast is allowed by `casting`: no, equiv, safe, same_kind or unsafe.

    A Python number can be cast safely to any dtype of its kind or above.

    >>> can_cast("int32", "float64"), can_cast("float64", "int32"), can_cast(3, "uint8")
    (True, False, True)
    """
    if is_scalar(from_) and not isinstance(from_, np.generic):
        kinds = {bool: Kind.BOOL, int: Kind.UINT, float: Kind.FLOAT, complex: Kind.COMPLEX}
        return casting == "unsafe" or to_dtype(to).kind >= kinds[type(from_)]
    source, target = _kind(from_)[0], to_dtype(to)
    if source is target or casting == "unsafe":
        return True
    if casting in ("no", "equiv"):
        return False
    if _extended(source) or _extended(target):
        if casting == "same_kind" and source.kind <= target.kind:
            return True
        both = dt.promote((source, False), (target, False))[0]
        return both is target
    return bool(np.can_cast(source.np, target.np, casting=casting))  # type: ignore[arg-type]


class extended(np.generic):
    """What dtypes lie below that have no arithmetic: `issubdtype(x.dtype, extended)`.

    >>> dtypes.issubdtype(random.key(0).dtype, dtypes.extended)
    True
    """


class prng_key(extended):
    """What the dtypes of random keys lie below: `issubdtype(x.dtype, prng_key)`.

    >>> dtypes.issubdtype(random.key(0).dtype, dtypes.prng_key)
    True
    """


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether the first dtype lies below the second one.

    The second may be a dtype or an abstract class such as `floating`.

    >>> issubdtype("float16", floating), issubdtype(bfloat16, floating), issubdtype("int8", floating)
    (True, True, False)
    """
    own = arg1 if isinstance(arg1, type) else getattr(arg1, "type", None)
    if any(isinstance(x, type) and issubclass(x, extended) for x in (own, arg2)):
        return isinstance(own, type) and isinstance(arg2, type) and issubclass(own, arg2)
    first = _named(arg1)
    if first is not None and first.np.isbuiltin != 1:  # NumPy does not know that these are floats
        second = _named(arg2)
        if second is not None:
            return first is second
        return arg2 in (np.floating, np.inexact, np.number, np.generic)
    second = _named(arg2)
    if second is not None and second.np.isbuiltin != 1:
        return False
    return bool(np.issubdtype(arg1, arg2))


def _named(x: Any) -> dt.DType | None:
    """The DType that `x` names; None for the abstract classes."""
    if isinstance(x, type) and issubclass(x, np.generic):
        try:
            return dt._BY_NP.get(np.dtype(x)) if x not in _ABSTRACT else None
        except TypeError:
            return None
    return to_dtype(x)


_ABSTRACT = (
    np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact,
    np.floating,
    np.complexfloating, np.flexible, np.character,
)  # fmt: skip

_KINDS = {
    "bool": (Kind.BOOL,), "signed integer": (Kind.INT,), "unsigned integer": (Kind.UINT,),
    "integral": (Kind.INT, Kind.UINT), "real floating": (Kind.FLOAT,),
    "complex floating": (Kind.COMPLEX,),
    "numeric": (Kind.INT, Kind.UINT, Kind.FLOAT, Kind.COMPLEX),
}  # fmt: skip


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Whether `dtype` is of a kind.

    kind   a dtype, a name of the array API ("bool", "signed integer", "unsigned integer", "integral", "real floating",
           "complex floating", "numeric"), or a tuple of these

    >>> isdtype(float32, "real floating"), isdtype("int8", (int16, "bool"))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    own = to_dtype(dtype)
    if isinstance(kind, str) and kind in _KINDS:
        return own.kind in _KINDS[kind]
    if isinstance(kind, str) and kind not in dt._BY_NAME:
        raise ValueError(f"isdtype: unknown kind {kind!r}; use a dtype or one of {', '.join(_KINDS)}")
    return own is to_dtype(kind)


class FloatInfo:
    """Limits of a floating dtype, as Python floats, which are weak; more as `numpy.finfo` has."""

    def __init__(self, kind: dt.DType) -> None:
        self._info = dt.finfo(kind)
        self.dtype: np.dtype[Any] = dt.real_of(kind).np
        self.bits = dt.real_of(kind).bits

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._info, name)
        return value if isinstance(value, int) else float(value)

    def __repr__(self) -> str:
        return f"finfo(dtype={self.dtype}, eps={self.eps}, min={self.min}, max={self.max})"


def finfo(dtype: Any) -> FloatInfo:
    """Limits of a floating dtype (or of an array's dtype); of a complex one those of its parts.

    Floats: `eps`, `max`, `min`, `tiny`, `smallest_subnormal` ..; `bits`, `dtype`. Raises ValueError for integers.

    >>> finfo("float32").eps, finfo("float32").bits
    (1.1920928955078125e-07, 32)
    """
    kind = _kind(dtype)[0]
    if not kind.is_inexact:
        raise note_user_line(ValueError(f"finfo: {kind} is no floating dtype; use iinfo"))
    return FloatInfo(kind)


def iinfo(dtype: Any) -> Any:
    """Limits of an integer dtype (or of an array's dtype): `bits`, `min` and `max`, Python ints.

    Raises ValueError for floats.

    >>> iinfo("int8").max
    127
    """
    kind = _kind(dtype)[0]
    if not kind.is_int:
        raise note_user_line(ValueError(f"iinfo: {kind} is no integer dtype; use finfo"))
    return np.iinfo(kind.np)


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex (whatever the values).

    >>> iscomplexobj(array([1j])), iscomplexobj(1.0)
    (True, False)
    """
    return _kind(x)[0].is_complex


def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex.

    >>> isrealobj(array([1j])), isrealobj(1.0)
    (False, True)
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether it is a number, or a 0-d array.

    >>> isscalar(2.5), isscalar(array(2.5)), isscalar(array([2.5]))
    (True, True, False)
    """
    if isinstance(element, Array):
        return element.ndim == 0
    return bool(np.isscalar(element)) or (is_arraylike(element) and np.ndim(element) == 0)


@public(static=("dtype",))
def _astype(x: ArrayLike, dtype: DTypeLike) -> Array:
    node, target = lift(x).node, to_dtype(dtype)
    if node.dtype.is_complex and not target.is_complex and target is not dt.bool_:
        node = build.real(node)
    elif target.is_complex and not node.dtype.is_complex:
        node = build.cast(node, dt.real_of(target))
        return Tracer(build.complex_(node, build.zeros_like(node)))
    return Tracer(build.cast(node, target))


@placed
def astype(x: ArrayLike, dtype: DTypeLike, *, copy: bool = False, device: Any = None) -> Array:
    """x with another dtype.

    Floats to integers truncate and saturate (NaN gives 0), complex to real takes the real part.

    >>> astype(array([1.7, -2.5]), int32)
    Array([ 1, -2], dtype=int32)
    """
    target = to_dtype(dtype if dtype is not None else float)
    return _astype(x, dtype=target)
