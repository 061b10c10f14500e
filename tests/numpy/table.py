"""Every function of fgrad.numpy, .linalg and .fft: how its arguments are drawn, and what is asked of it.

A row is added by `row("names", draw, ...)`. `draw(d)` returns the arguments, a tuple that may end with a dict of
keywords; NumPy arrays among them vary under jit, vmap and grad, everything else is fixed. `test_every_function.py`
calls fgrad's and NumPy's function of that name with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import fgrad.numpy as fnp

KINDS: dict[str, tuple[Any, ...]] = {
    "b": (np.bool_,),
    "i": (np.int8, np.int16, np.int32, np.int64),
    "u": (np.uint8, np.uint16, np.uint32, np.uint64),
    "h": (np.float16, ml_dtypes.bfloat16),
    "f": (np.float32, np.float64),
    "c": (np.complex64, np.complex128),
}
SHAPES = ((), (3,), (2, 3), (1,), (0,), (3, 1), (2, 1, 3), (1, 4), (2, 0), (4, 2), (5,), (2, 2, 2), (17,))
ANY = (-3.0, 3.0)


class Draw:
    """Draws the arguments of one call.

    dtype   of the arrays that `x` draws
    tame    for derivatives: few, distinct, ordinary numbers of the row's domain, no empty array
    """

    def __init__(self, row: Row, rng: np.random.Generator, dtype: Any, tame: bool = False) -> None:
        self.row = row
        self.rng = rng
        self.dtype = np.dtype(dtype)
        self.tame = tame

    # ---- choices
    def pick(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def int(self, low: int, high: int) -> int:
        """low <= n <= high."""
        return int(self.rng.integers(low, high + 1))

    def flag(self) -> bool:
        return bool(self.rng.integers(2))

    def shape(self, least: int = 0, most: int = 3, side: int = 0) -> tuple[int, ...]:
        """With `least` to `most` axes, of at least `side` elements each."""
        if self.tame:
            return ((), (4,), (2, 3), (2, 2, 3))[max(least, min(most, 2))]
        return tuple(self.pick(*[s for s in SHAPES if least <= len(s) <= most and all(n >= side for n in s)]))

    def axis(self, x: Any, none: bool = False) -> Any:
        """An axis of x, from either end; None too if `none`, or if x has none."""
        n = np.ndim(x)
        return self.pick(*([None] if none or not n else []), *range(-n, n))

    def axes(self, x: Any) -> Any:
        """None, an axis, some axes, or ()."""
        n = np.ndim(x)
        some = tuple(int(a) for a in self.rng.permutation(n)[: self.int(0, n)])
        return self.pick(None, some, self.axis(x, none=True))

    # ---- arrays
    def x(self, *shape: Any, dtype: Any = None, of: tuple[float, float] | None = None, special: Any = None) -> Any:
        """An array of `shape` (one is drawn if none is given): numbers of the interval `of`, and special values."""
        sizes = self.shape() if not shape else shape[0] if isinstance(shape[0], tuple) else shape
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        low, high = of or self.row.domain
        count = int(np.prod(sizes))
        steps = (self.rng.permutation(count) + self.rng.uniform(0.25, 0.75, count)) / max(count, 1)
        values = low + (high - low) * (steps if self.tame else self.rng.uniform(0, 1, count))
        if dtype.kind == "b":
            out = self.rng.uniform(0, 1, count) < 0.5
        elif dtype.kind in "iu":
            out = np.clip(np.rint(values * 3), 0 if dtype.kind == "u" else -100, 100).astype(dtype)
        elif dtype.kind == "c":
            out = (values + 1j * self.rng.permutation(values)).astype(dtype)
        else:
            out = values.astype(dtype)
        if (self.row.special if special is None else special) and not self.tame and self.rng.integers(3):
            self._spice(out)
        return out.reshape(sizes)

    def _spice(self, out: Any) -> None:
        """Put special values into some places."""
        if out.dtype.kind in "iu":
            info = np.iinfo(out.dtype)
            some = [info.min, info.max, 0, 1, 2, *([-1] if out.dtype.kind == "i" else [])]
            some = some if self.row.wide else [0, 1, 2]
        elif out.dtype.kind in "fV":
            some = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5]
            tiny = ml_dtypes.finfo(out.dtype).smallest_normal if self.row.wide else 1
            some += [float(tiny) * 4, -float(tiny) * 4]
        else:
            return
        for i in range(len(out)):
            if self.rng.integers(2):
                out[i] = self.pick(*some)

    def like(self, x: Any, **options: Any) -> Any:
        """An array that broadcasts with x."""
        sizes = [1 if n != 1 and not self.rng.integers(4) else n for n in x.shape]
        return self.x(x.shape if self.tame else tuple(sizes[self.pick(0, 0, 0, x.ndim // 2) :]), **options)

    def mask(self, shape: tuple[int, ...]) -> Any:
        """Conditions; when tame, some are True along every axis."""
        return np.indices(shape).sum(0) % 2 == 0 if self.tame else self.rng.uniform(0, 1, shape) < 0.6

    def index(self, n: int, *shape: int, negative: bool = True) -> Any:
        """Indices of an axis with n elements."""
        return self.rng.integers(-n if negative else 0, max(n, 1), shape or (3,))

    def distinct(self, *shape: int) -> Any:
        """Numbers in random order with no two equal, so that any sort gives one result."""
        count = int(np.prod(shape))
        return self.rng.permutation((np.arange(count) - count // 2) * 0.75 + 0.1).reshape(shape).astype(self.dtype)

    def ordered(self, count: int, **options: Any) -> Any:
        """A vector in ascending order, NaN last."""
        x = self.x(count, **options)
        return x[np.argsort(x.astype(np.float64), stable=True)]

    def positive(self, *shape: int) -> Any:
        """A well conditioned, symmetric (Hermitian), positive definite matrix."""
        m = self.square(*shape)
        return (m @ np.conj(np.swapaxes(m, -1, -2)) + 2 * np.eye(shape[-1])).astype(self.dtype)

    def square(self, *shape: int) -> Any:
        """A well conditioned matrix, far from a symmetric one."""
        m = self.rng.normal(size=shape)
        if self.dtype.kind == "c":
            m = m + 1j * self.rng.normal(size=shape)
        return (m + 3 * np.diag(1.3 ** np.arange(shape[-1]))).astype(self.dtype)

    def stacked(self, *shape: int) -> tuple[int, ...]:
        """The shape of a matrix, or of several."""
        return self.pick((), (2,), () if self.tame else (0,)) + shape


@dataclass(frozen=True)
class Row:
    """What is asked of a function.

    kinds    letters of KINDS: the dtypes it takes
    domain   interval of the numbers; where the function is smooth, for derivatives
    special  NaN, infinities, zeros of both signs, the smallest and largest integers are drawn too
    wide     the largest integers and subnormal numbers too (False where they are turned into floats)
    floats   integers become floats before anything else
    smooth   derivatives of order 1 and 2, in both modes, are those of differences
    traced   works under jit and vmap; False for what needs the values (their shapes depend on them)
    reference  what to compare with, if not NumPy's function of that name
    narrow   the dtype of the operands is kept where NumPy goes over to float64
    view     applied to both results, to make them unique
    slack    factor on the tolerance
    zeros    the signs of zeros are NumPy's
    """

    name: str
    draw: Callable[[Draw], tuple[Any, ...]]
    kinds: str = "biufhc"
    domain: tuple[float, float] = ANY
    special: bool = True
    wide: bool = True
    floats: bool = False
    smooth: bool = True
    traced: bool = True
    reference: Any = None
    view: Callable[..., Any] | None = None
    narrow: bool = False
    slack: float = 1
    zeros: bool = False

    @property
    def function(self) -> Any:
        place: Any = fnp
        for part in self.name.split("."):
            place = getattr(place, part)
        return place

    def numpys(self) -> Any:
        if self.reference is not None:
            return self.reference
        place: Any = np
        for part in self.name.split("."):
            place = getattr(place, part)
        return place


ROWS: list[Row] = []


def row(names: str, draw: Callable[[Draw], tuple[Any, ...]], kinds: str = "biufhc", **options: Any) -> None:
    """One row for each of the names."""
    ROWS.extend(Row(name, draw, kinds, **options) for name in names.split())


# ---- functions of one number
def one(d: Draw) -> tuple[Any, ...]:
    return (d.x(),)


FLOATS = {"wide": False, "floats": True, "zeros": True}
row("sin cos", one, "biufhc", **FLOATS)
row("tan", one, "biufhc", domain=(-1, 1.1), **FLOATS)
row("arctan atan arcsinh asinh tanh", one, "biufhc", domain=(-0.9, 0.9), **FLOATS)
row("sinh cosh exp exp2 expm1", one, "biufhc", **FLOATS)
row("arcsin asin arccos acos arctanh atanh", one, "biufhc", domain=(-0.85, 0.9), **FLOATS)
row("arccosh acosh", one, "biufhc", domain=(1.2, 3.0), **FLOATS)
row("log log2 log10 sqrt", one, "biufhc", domain=(0.3, 2.5), **FLOATS)
row("log1p", one, "biufhc", domain=(-0.6, 1.2), **FLOATS)
row("cbrt", one, "biufh", domain=(0.3, 2.5), **FLOATS)
row("deg2rad rad2deg radians degrees", one, "biufh", **FLOATS)
row("fabs rint", one, "biufh", **FLOATS)
row("sinc", one, "biufhc", domain=(0.2, 2.6), wide=False, slack=4)
row("i0", one, "biufh", wide=False, slack=4)
row("floor ceil trunc", one, "biufh", zeros=True)
row("abs absolute", one, zeros=True)
row("positive negative sign", one, "iufhc", zeros=True)
row("square", one, "iufhc", zeros=True, domain=(-2, 2))
row("reciprocal", one, "fhc", domain=(0.3, 2.5), zeros=True)
row("conj conjugate", one, "iufhc", zeros=True)
row("real imag", one, zeros=True)
row("isnan isinf isfinite isreal iscomplex logical_not", one)
row("isposinf isneginf signbit", one, "biufh")
row("nan_to_num", lambda d: (d.x(), {"nan": d.pick(0.0, 7.0)}), zeros=True)
row("invert bitwise_not bitwise_invert", one, "biu")
row("bitwise_count", one, "iu")
row("spacing", one, "fh", smooth=False)
row("modf", one, "fh", zeros=True)
row("frexp", lambda d: (d.x(),), "fh", smooth=False)
row("angle", lambda d: (d.x(), d.flag()), "fhc")
row("round around", lambda d: (d.x(), d.pick(0, 1, 2, 0 if d.tame else -1)), "iuf", special=False)

# ---- functions of two numbers


def two(d: Draw) -> tuple[Any, ...]:
    x = d.x()
    y = d.like(x)
    return (x, y) if d.flag() else (y, x)


def two_of_one_shape(d: Draw) -> tuple[Any, ...]:
    x = d.x()
    return (x, d.x(x.shape))


def divided(d: Draw) -> tuple[Any, ...]:
    """The second one is away from zero, where that makes a kink or a pole."""
    x = d.x()
    return (x, d.like(x, of=(0.4, 2.9)))


row("add multiply", two, zeros=True)
row("subtract", two, "iufhc", zeros=True)
row("divide true_divide", divided, **FLOATS)
row("floor_divide", divided, "iufh")
row("mod remainder fmod", divided, "iufh")
row("divmod", divided, "iufh")
row("maximum minimum fmax fmin", two)
row("equal not_equal less less_equal greater greater_equal", two)
row("logical_and logical_or logical_xor", two)
row("isclose", lambda d: (*two(d), {"equal_nan": d.flag()}), wide=False)
row("arctan2 atan2", two, "fh", zeros=True)
row("hypot", two, "fh", domain=(0.3, 2.5))
row("copysign", two, "fh", zeros=True)
row("logaddexp logaddexp2", two, "fh", slack=3)
row("nextafter", two, "fh", smooth=False, zeros=True)
row("heaviside", two, "fh")
row("power pow", lambda d: (lambda x: (x, d.like(x, of=(-2, 2))))(d.x(of=(0.3, 2.5))), "fh")
row("float_power", lambda d: (d.x(of=(0.3, 2.5)), d.x((), of=(-2, 2))), "fc", special=False,
    reference=lambda x, y: np.float_power(x, y).astype(x.dtype))
row("bitwise_and bitwise_or bitwise_xor", two, "biu")
row("gcd lcm", two, "iu", special=False)
row("left_shift right_shift bitwise_left_shift bitwise_right_shift",
    lambda d: (d.x(), d.index(7, 1, negative=False).astype(d.dtype)), "iu")  # fmt: skip
row("ldexp", lambda d: (d.x(), d.index(9, 1).astype(np.int32)), "fh", zeros=True)
row("clip", lambda d: (d.x(), d.pick(None, -1.1), d.pick(None, 1.3)), "fh")
row("clip", lambda d: (lambda x: (x, d.like(x, of=(-1, 0)), d.like(x, of=(1, 2))))(d.x()), "ifh")
row("where", lambda d: (lambda x: (d.mask(x.shape), x, d.like(x)))(d.x()))
row("array_equal array_equiv", two_of_one_shape)
row("allclose", two_of_one_shape, wide=False)

# ---- reductions


def reduced(d: Draw) -> tuple[Any, ...]:
    x = d.x()
    return (x, {"axis": d.axes(x), "keepdims": d.flag()})


def reduced_some(d: Draw) -> tuple[Any, ...]:
    """At least one element each."""
    x = d.x(d.shape(side=1))
    return (x, {"axis": d.axes(x), "keepdims": d.flag()})


def masked(d: Draw, **more: Any) -> tuple[Any, ...]:
    x = d.x()
    axis = d.pick(None, 0, -1) if d.tame else d.axes(x)  # something is left of every part
    return (x, {"axis": axis, "keepdims": d.flag(), "where": d.mask(x.shape)} | more)


def moments(d: Draw) -> tuple[Any, ...]:
    x = d.x(special=False)
    return (x, {"axis": d.axes(x), "keepdims": d.flag(), "ddof": d.pick(0, 1)})


def positioned(d: Draw) -> tuple[Any, ...]:
    x = d.x(d.shape(side=1))
    return (x, {"axis": d.axis(x, none=True), "keepdims": d.flag()})


row("sum nansum", reduced, slack=4)
row("mean nanmean", reduced, wide=False, slack=4)
row("prod nanprod", reduced, domain=(-1.5, 1.6), slack=4)
row("any all count_nonzero", reduced)
row("max min amax amin ptp", reduced_some, "iufh")
row("nanmax nanmin", reduced_some, "iufh")
row("max min", lambda d: masked(d, initial=1), "iufh")
row("sum prod mean any all nansum nanmean nanprod", masked, "f", special=False, wide=False, domain=(-1.5, 1.6))
row("var std nanvar nanstd", moments, "biufhc", slack=10)
row("argmax argmin", positioned, "biufh")
row("nanargmax nanargmin", positioned, "biuf", special=False)
row("average", lambda d: (lambda x: (x, {"axis": d.axis(x, none=True), "weights": d.x(x.shape, of=(0.3, 2.5))}))
    (d.x(d.shape(1, side=1))), "fc", special=False, slack=4)  # fmt: skip
row("median nanmedian", reduced_some, "iufh", wide=False, slack=4)
row("quantile nanquantile", lambda d: (*reduced_some(d)[:1], d.pick(0.3, [0.1, 0.9], 0.0, 1.0)), "iuf",
    special=False, narrow=True, slack=4)  # fmt: skip
row("percentile nanpercentile", lambda d: (*reduced_some(d)[:1], d.pick(30, [10, 90], 0, 100)), "iuf",
    special=False, narrow=True, slack=4)  # fmt: skip
row("cumsum cumprod nancumsum nancumprod", lambda d: (lambda x: (x, {"axis": d.axis(x, none=True)}))(d.x()),
    domain=(-1.5, 1.6), slack=4)  # fmt: skip
row("cumulative_sum cumulative_prod", lambda d: (lambda x: (x, {"axis": d.axis(x), "include_initial": d.flag()}))
    (d.x(d.shape(1))), domain=(-1.5, 1.6), slack=4)  # fmt: skip
row("cov", lambda d: (d.x(d.shape(1, 2, 2)), {"bias": d.flag()}), "iufc", special=False, slack=10, wide=False,
    narrow=True)  # fmt: skip
row("corrcoef", lambda d: (d.x(d.pick((2, 5), (3, 4), (6,))),), "fc", special=False, slack=20, narrow=True)
row("trapezoid", lambda d: (lambda x: (x, {"dx": 0.3, "axis": d.axis(x)}))(d.x(d.shape(1, side=1))), "iufhc",
    wide=False, slack=4)  # fmt: skip
row("diff", lambda d: (lambda x: (x, d.pick(0, 1, 2), d.axis(x)))(d.x(d.shape(1))))
row("ediff1d", lambda d: (d.x(), {"to_end": d.x((2,))}), "iufhc")
row("gradient", lambda d: (lambda x: (x, 0.5, {"axis": d.axis(x)}))(d.x(d.pick((5,), (3, 4), (4, 3)))), "ifhc",
    wide=False, slack=4)  # fmt: skip
row("unwrap", lambda d: (lambda x: (x, {"axis": d.axis(x)}))(d.x(d.shape(1), of=(-9, 9))), "f", special=False, slack=4)

# ---- sorting and searching
row("sort", lambda d: (lambda x: (x, {"axis": d.axis(x, none=True)}))(d.x(d.shape(1))))
row("argsort", lambda d: (lambda x: (x, {"axis": d.axis(x, none=True), "stable": True}))(d.x(d.shape(1))))
row("sort_complex", lambda d: (d.x(d.shape(1)),), "iufc", special=False, smooth=False, narrow=True)
row("partition", lambda d: (d.distinct(3, 5), d.pick(0, 2, -1)), "f", view=lambda out, x, k: np.sort(out, -1)
    if isinstance(out, np.ndarray) else fnp.sort(out, -1))  # fmt: skip
row("argpartition", lambda d: (d.distinct(3, 5), d.pick(0, 2, 4)), "f",
    view=lambda out, x, k: np.take_along_axis(x, np.asarray(out), 1)[:, k], traced=False)  # fmt: skip
row("lexsort", lambda d: ((d.x(5), d.x(5)),))
row("searchsorted", lambda d: (d.ordered(d.int(0, 9)), d.x(), {"side": d.pick("left", "right")}), "biufh")
row("digitize", lambda d: (d.x(special=False), d.ordered(4, special=False), d.flag()), "iuf")
row("nonzero argwhere flatnonzero", lambda d: (d.x(d.shape(1)),), traced=False)
row("bincount", lambda d: (d.index(6, 9, negative=False).astype(d.dtype), {"minlength": d.int(0, 9)}), "iu",
    traced=False)  # fmt: skip
row("unique", lambda d: (d.x(), *d.pick((), (True, True, True))), "biuf", traced=False, smooth=False)
row("unique_values", lambda d: (d.x(special=False),), "biuf", traced=False, smooth=False, reference=np.unique)
row("unique_all unique_counts unique_inverse", lambda d: (d.x(special=False),), "biuf", traced=False, smooth=False)
row("union1d intersect1d setdiff1d setxor1d", two, "biuf", special=False, traced=False, smooth=False)
row("isin", lambda d: (d.x(), d.x(d.shape(1)), {"invert": d.flag()}), "biuf", special=False)
row("in1d", lambda d: (d.x(), d.x(d.shape(1))), "biuf", special=False,
    reference=lambda x, y: np.isin(np.ravel(x), y))  # fmt: skip
row("histogram", lambda d: (d.x(17), [-2.0, -0.5, 0.6, 1.0, 2.5]), "if", special=False, smooth=False)
row("histogram_bin_edges", lambda d: (d.x(17), d.int(1, 6)), "f", special=False, smooth=False)
row("histogram2d", lambda d: (d.x(9), d.x(9), [np.array([-2.0, 0.3, 2.5]), np.array([-3.0, 0.1, 1.0, 3.0])]), "f",
    special=False, smooth=False)  # fmt: skip
row("histogramdd", lambda d: (d.x(9, 2), [[-2.0, 0.3, 2.5], [-3.0, 0.1, 1.0, 3.0]]), "f", special=False,
    smooth=False)  # fmt: skip

# ---- shapes
SAME = {"zeros": True}
row("ravel transpose copy array asarray", one, **SAME)
row("shape ndim size", one)
row("iscomplexobj isrealobj iterable", one)
row("isscalar", lambda d: (d.x(d.shape(1)),))
row("reshape", lambda d: (d.x(2, 6), d.pick((3, 4), (-1,), (2, -1, 3), 12), {"order": d.pick("C", "F")}), **SAME)
row("resize", lambda d: (d.x(d.shape(side=1)), d.pick((2, 3), 5, (1,), (3, 4))), **SAME)
row("broadcast_to", lambda d: (d.x(d.pick((3,), (1, 3), (2, 1), (), (2, 3))), d.pick((2, 3), (4, 2, 3))), **SAME)
row("broadcast_arrays", two, **SAME)
row("atleast_1d atleast_2d atleast_3d", one, **SAME)
row("squeeze", lambda d: (d.x(d.pick((1, 3), (2, 1, 3), (1, 1), (3,), ())),), **SAME)
row("expand_dims", lambda d: (d.x(), d.pick(0, -1, (0, -1))), **SAME)
row("moveaxis", lambda d: (d.x(2, 3, 4), *d.pick((0, -1), (2, 0), ((0, 1), (-1, 0)))), **SAME)
row("rollaxis", lambda d: (d.x(2, 3, 4), *d.pick((0,), (2,), (-1, 1), (1, 3))), **SAME)
row("swapaxes", lambda d: (d.x(2, 3, 4), d.int(-3, 2), d.int(-3, 2)), **SAME)
row("permute_dims transpose", lambda d: (d.x(2, 3, 4), d.pick((2, 0, 1), (0, -1, 1))), **SAME)
row("matrix_transpose", lambda d: (d.x(d.shape(2)),), **SAME)
row("flip", lambda d: (lambda x: (x, d.axes(x)))(d.x()), **SAME)
row("fliplr", lambda d: (d.x(d.shape(2)),), **SAME)
row("flipud", lambda d: (d.x(d.shape(1)),), **SAME)
row("rot90", lambda d: (d.x(d.shape(2)), d.int(-3, 5), d.pick((0, 1), (1, 0))), **SAME)
row("roll", lambda d: (d.x(2, 3), *d.pick((1,), (-2, 0), ((1, 2), (0, 1)), (7, -1))), **SAME)
row("concatenate concat", lambda d: (lambda x: ((x, d.x(x.shape)), d.axis(x)))(d.x(d.shape(1))), **SAME)
row("stack", lambda d: ((lambda x: ((x, d.x(x.shape)), d.pick(0, -1)))(d.x())), **SAME)
row("vstack hstack dstack column_stack", lambda d: ((lambda x: ((x, d.x(x.shape)),))(d.x(d.shape(0, 2)))), **SAME)
row("append", lambda d: (lambda x: (x, d.x(x.shape), d.axis(x, none=True)))(d.x()), **SAME)
row("block", lambda d: ([[d.x(2, 2), d.x(2, 1)], [d.x(1, 2), d.x(1, 1)]],), **SAME)
row("split", lambda d: (d.x(4, 6), *d.pick((2,), (3, 1), ([1, 3],), ([1, 3, 9], 1), (2, -1))), **SAME)
row("array_split", lambda d: (d.x(4, 5), *d.pick((3,), (2, 1), ([1, 1],))), **SAME)
row("hsplit vsplit dsplit", lambda d: (d.x(2, 4, 2), d.pick(2, [1])), **SAME)
row("unstack", lambda d: (lambda x: (x, {"axis": d.axis(x)}))(d.x(d.shape(1))), **SAME)
row("tile", lambda d: (d.x(), d.pick(2, 0, (2, 1), (1, 2, 2))), **SAME)
row("repeat", lambda d: (d.x(3, 2), d.pick(0, 2, 3), d.pick(None, 0, -1)), **SAME)
row("repeat", lambda d: (d.x(3, 2), [1, 0, 2], 0), **SAME)
row("delete", lambda d: (d.x(4, 3), d.pick(1, [0, -1], slice(0, 2)), d.pick(0, 1)), **SAME)
row("insert", lambda d: (d.x(4, 3), d.pick(1, 0, -1), d.x(()), d.pick(0, 1, None)), **SAME)
row("trim_zeros", lambda d: (np.concatenate([np.zeros(2), [1, 0, 2], np.zeros(1)]).astype(d.dtype),), "if",
    traced=False, smooth=False)  # fmt: skip
row("pad", lambda d: (d.x(d.pick((3,), (2, 3))), d.pick(1, (0, 2), 0),
                      d.pick("constant", "edge", "wrap", "reflect", "symmetric")), **SAME)  # fmt: skip
row("pad", lambda d: (d.x(2, 3), 1, d.pick("maximum", "minimum", "mean", "linear_ramp")), "f", special=False, slack=2)
row("zeros_like ones_like", one)
row("empty_like", one, reference=np.zeros_like, view=lambda out, x: out * 0)
row("full_like", lambda d: (d.x(), d.pick(0, 1)))
row("astype", lambda d: (d.x(special=False), np.float64 if d.tame else d.pick(np.float32, np.float64)), "biuf")
row("meshgrid", lambda d: (d.x(d.int(0, 3)), d.x(2), {"indexing": d.pick("xy", "ij"), "sparse": d.flag()}), **SAME)
row("ix_", lambda d: (d.x(2), d.x(3)), "iuf")
row("tril triu", lambda d: (d.x(d.shape(2)), d.int(-2, 2)))
row("diag", lambda d: (d.x(d.shape(1, 2, 1)), d.int(-1, 1)))
row("diagflat", lambda d: (d.x(d.shape(0, 2)), d.int(-1, 1)))
row("diagonal", lambda d: (d.x(d.shape(2)), d.int(-1, 1)))
row("trace", lambda d: (d.x(d.shape(2)), d.int(-1, 1)), slack=4)
row("vander", lambda d: (d.x(3), d.pick(None, 2, 4), d.flag()), "fc", special=False, slack=4, narrow=True)
row("tril_indices_from triu_indices_from", lambda d: (d.x(3, 4), d.int(-1, 1)))
row("diag_indices_from", lambda d: (d.x(3, 3),))
row("packbits", lambda d: (lambda x: (x, d.axis(x, none=True), d.pick("big", "little")))(d.x(d.shape(1))), "b")
row("unpackbits", lambda d: (lambda x: (x, d.axis(x, none=True)))(d.x(d.shape(1)).astype(np.uint8)), "u")

# ---- elements
row("take", lambda d: (d.x(4, 3), d.index(3, 2, 2), d.pick(0, 1, -1)), **SAME)
row("take", lambda d: (d.x(4, 3), d.index(9, 4), None, {"mode": d.pick("wrap", "clip")}), **SAME)
row("take_along_axis", lambda d: (d.x(4, 3), d.index(3, 4, 2), 1), **SAME)
row("compress", lambda d: ([True, False, True], d.x(3, 4), d.pick(0, 1, None)), **SAME)
row("extract", lambda d: ([True, False, True], d.x(3)), **SAME)
row("choose", lambda d: (d.index(2, 3, negative=False), [d.x(3), d.x(3)], {"mode": d.pick("clip", "wrap")}), **SAME)
row("select", lambda d: ([d.mask((4,)), d.mask((4,))], [d.x(4), d.x(4)], 0), **SAME)
row("piecewise", lambda d: (lambda x: (x, [x < 0, x > 1], [0, 2, 1]))(d.x(5, special=False)), "f", traced=False,
    smooth=False)  # fmt: skip
row("unravel_index", lambda d: (d.index(12, 5, negative=False), (3, 4)), "i")
row("ravel_multi_index", lambda d: ((d.index(3, 5, negative=False), d.index(4, 5, negative=False)), (3, 4)), "i",
    traced=False)  # fmt: skip


def changed(name: str) -> Callable[..., Any]:
    """NumPy's function that writes into its first argument, as one that returns it."""

    def run(x: Any, *args: Any, inplace: bool, **options: Any) -> Any:
        x = x.copy()
        getattr(np, name)(x, *args, **options)
        return x

    return run


NEW = {"inplace": False}
row("put", lambda d: (d.x(2, 3), d.pick([0, 4], [-1, 2]), d.x(2), NEW), reference=changed("put"), **SAME)
row("place", lambda d: (d.x(2, 3), [[True, False, True], [False, True, False]], d.x(2), NEW),
    reference=changed("place"), **SAME)  # fmt: skip
row("put_along_axis", lambda d: (d.x(4, 3), d.index(3, 4, 1), d.x(4, 1), 1, NEW),
    reference=changed("put_along_axis"), **SAME)  # fmt: skip
row("fill_diagonal", lambda d: (d.x(d.pick((3, 3), (4, 3))), d.x(()), d.flag(), NEW),
    reference=changed("fill_diagonal"), **SAME)  # fmt: skip

# ---- products


def fitting(*shapes: tuple[tuple[int, ...], ...]) -> Callable[[Draw], tuple[Any, ...]]:
    """Two arrays with one of the pairs of shapes."""
    return lambda d: tuple(d.x(s) for s in shapes[0 if d.tame else d.int(0, len(shapes) - 1)])


PRODUCT = {"special": False, "slack": 4}
MATMUL = (((2, 3), (3, 4)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((5, 2, 3), (3, 4)), ((0, 3), (3, 4)),
          ((2, 0), (0, 4)), ((2, 1, 2, 3), (4, 3, 2)), ((1, 1), (1, 1)))  # fmt: skip
row("matmul linalg.matmul", fitting(*MATMUL), **PRODUCT)
row("dot", fitting(*MATMUL[:7], ((2, 3), (5, 3, 2)), ((), (3,))), **PRODUCT)
row("inner", fitting(((2, 3), (4, 3)), ((3,), (3,)), ((), (2,)), ((2, 0), (3, 0))), **PRODUCT)
row("outer", fitting(((2,), (3,)), ((0,), (3,)), ((2, 2), (3,))), **PRODUCT)
row("linalg.outer", fitting(((2,), (3,)), ((0,), (3,))), **PRODUCT)
row("vdot", fitting(((3,), (3,)), ((2, 2), (2, 2)), ((0,), (0,))), **PRODUCT)
row("vecdot linalg.vecdot", fitting(((2, 3), (2, 3)), ((3,), (4, 3)), ((0, 3), (3,))), **PRODUCT)
row("matvec", fitting(((2, 3), (3,)), ((4, 2, 3), (4, 3))), **PRODUCT)
row("vecmat", fitting(((2,), (2, 3)), ((4, 2), (4, 2, 3))), **PRODUCT)
row("tensordot", lambda d: (*fitting(((2, 3), (2, 3)), ((4, 2, 3), (2, 3, 2)))(d), 2), **PRODUCT)
row("linalg.tensordot", lambda d: (*fitting(((2, 3), (2, 3)), ((4, 2, 3), (2, 3, 2)))(d), {"axes": 2}), **PRODUCT)
row("tensordot", lambda d: (d.x(3, 4, 2), d.x(2, 5, 4), ((1, 2), (2, 0))), **PRODUCT)
row("einsum", lambda d: ("ij,jk->ki", d.x(2, 3), d.x(3, 4)), **PRODUCT)
row("einsum", lambda d: (d.pick("ii->i", "ii", "ij->ji", "ij->"), d.x(3, 3)), "iufhc", **PRODUCT)
row("kron", fitting(((2,), (3,)), ((2, 2), (1, 3)), ((2, 2), (3,)), ((), (2,))), **PRODUCT)
row("cross linalg.cross", fitting(((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (3,))), "iufc", **PRODUCT)
row("convolve correlate", lambda d: (d.x(d.int(1, 5)), d.x(d.int(1, 4)), d.pick("full", "same", "valid")), "iufc",
    **PRODUCT)  # fmt: skip
row("polyval", lambda d: (d.x(3), d.x()), "iufc", **PRODUCT)
row("polyadd polysub polymul", lambda d: (d.x(3, of=(0.5, 2.5)), d.x(d.int(1, 4), of=(0.5, 2.5))), "iufc", **PRODUCT)
row("polydiv", lambda d: (d.x(4, of=(0.5, 2.5)), d.x(2, of=(0.5, 2.5))), "fc", **PRODUCT,
    view=lambda out, *args: (out[0], out[1][-1:]))  # fmt: skip
row("polyder", lambda d: (d.x(5), d.int(0, 3)), "fc", narrow=True, **PRODUCT)
row("polyint", lambda d: (d.x(4), d.int(1, 3)), "iufc", narrow=True, **PRODUCT)
row("poly", lambda d: (d.x(3),), "ifc", **PRODUCT)
row("roots", lambda d: (d.x(4, of=(0.5, 2.5)),), "fc", special=False, slack=100, traced=False, smooth=False,
    view=lambda out, p: np.sort_complex(np.asarray(out)))  # fmt: skip
row("polyfit", lambda d: (np.arange(6.0).astype(d.dtype), d.x(6), 2), "f", special=False, slack=1000, traced=False,
    smooth=False, narrow=True)  # fmt: skip
row("interp", lambda d: (d.x(), np.arange(4.0).astype(d.dtype) - 1.6, d.x(4)), "f", special=False, slack=4, narrow=True)
row("apply_along_axis", lambda d: (np.cumsum, d.pick(0, 1, -1), d.x(2, 3)), "if", special=False)
row("apply_over_axes", lambda d: (np.sum, d.x(2, 3, 2), d.pick([0], [0, 2])), "if", special=False, slack=4)

# ---- linear algebra
MATRIX = {"special": False, "slack": 100}
SPREAD = {**MATRIX, "slack": 1000}
row("linalg.cholesky", lambda d: (d.positive(*d.stacked(3, 3)), {"upper": d.flag()}), "fc",
    view=lambda out, x, upper: out, **MATRIX)  # fmt: skip
row("linalg.inv linalg.det linalg.slogdet", lambda d: (d.square(*d.stacked(3, 3)),), "fc", **SPREAD)
row("linalg.cond", lambda d: (d.square(*d.stacked(3, 3)), d.pick(None, 2, "fro", 1)), "fc", **SPREAD)
row("linalg.pinv", lambda d: (d.square(4, 4)[: d.int(2, 4), : d.int(2, 4)],), "fc", **SPREAD)
row("linalg.solve", lambda d: (d.square(*d.stacked(3, 3)), d.x(3, 2)), "fc", **SPREAD)
row("linalg.lstsq", lambda d: (d.square(4, 4)[:, :2], d.x(4)), "fc", view=lambda out, *args: out[0], **SPREAD)
row("linalg.eigvalsh", lambda d: (d.positive(*d.stacked(3, 3)),), "fc", **SPREAD)
row("linalg.eigh", lambda d: (d.positive(3, 3),), "fc", view=lambda out, x: (out[0], abs(out[1])), **SPREAD)
row("linalg.eigvals", lambda d: (d.square(3, 3),), "fc", view=lambda out, x: (out.real.sum(), abs((out**3).sum())),
    **SPREAD)  # fmt: skip
row("linalg.eig", lambda d: (d.square(3, 3),), "fc", view=lambda out, x: (abs((out[0] ** 3).sum()), abs(out[1]).sum()),
    **SPREAD)  # fmt: skip
row("linalg.svd", lambda d: (d.square(4, 4)[: d.int(2, 4), : d.int(2, 4)], False), "fc",
    view=lambda out, *args: (out[1], abs(out[0]), abs(out[2])), **SPREAD)  # fmt: skip
row("linalg.svdvals", lambda d: (d.square(4, 4)[:, : d.int(2, 4)],), "fc", **SPREAD)
row("linalg.qr", lambda d: (d.square(4, 4)[: d.int(3, 4), : d.int(1, 3)],), "fc", **SPREAD)
row("linalg.matrix_rank", lambda d: (d.square(*d.stacked(3, 3)),), "fc", **MATRIX)
row("linalg.norm", lambda d: (lambda x: (x, d.pick(None, 1, 2, 3, np.inf, 0.5), d.axis(x), d.flag()))
    (d.x(d.shape(1, side=1))), "iufc", special=False, wide=False, slack=4)  # fmt: skip
row("linalg.norm", lambda d: (d.x(2, 3), d.pick(None, "fro", 1, -1, np.inf, "nuc", 2)), "f", special=False, slack=10)
row("linalg.vector_norm", lambda d: (lambda x: (x, {"axis": d.axes(x), "keepdims": d.flag(), "ord": d.pick(1, 2, 3)}))
    (d.x(d.shape(1, side=1))), "fc", special=False, slack=4)  # fmt: skip
row("linalg.matrix_norm", lambda d: (d.x(*d.stacked(2, 3)), {"keepdims": d.flag(), "ord": d.pick("fro", 1, np.inf)}),
    "fc", special=False, slack=4)  # fmt: skip
row("linalg.matrix_power", lambda d: (d.x(*d.stacked(2, 2)), d.pick(0, 1, 3, 5)), "ifc", special=False, slack=20)
row("linalg.multi_dot", lambda d: ([d.x(2, 3), d.x(3, 4), d.x(4, 2)],), "fc", **PRODUCT)
row("linalg.tensorinv", lambda d: (d.square(4, 4).reshape(2, 2, 4), 2), "fc", **SPREAD)
row("linalg.tensorsolve", lambda d: (d.square(4, 4).reshape(2, 2, 4), d.x(2, 2)), "fc", **SPREAD)
row("linalg.trace", lambda d: (d.x(d.shape(2)), {"offset": d.int(-1, 1)}), slack=4)
row("linalg.diagonal", lambda d: (d.x(d.shape(2)), {"offset": d.int(-1, 1)}))
row("linalg.matrix_transpose", lambda d: (d.x(d.shape(2)),))

# ---- Fourier transforms
WAVE = {"special": False, "slack": 10}
NORMS = (None, "ortho", "forward")


def wave(d: Draw) -> tuple[Any, ...]:
    x = d.x(d.shape(1, side=1))
    return (x, d.pick(None, 3, 6), d.axis(x), d.pick(*NORMS))


def waves(d: Draw) -> tuple[Any, ...]:
    return (d.x(d.pick((2, 3), (2, 4, 3))), d.pick(None, (3, 4)), d.pick((0, 1), (-1, 0)), d.pick(*NORMS))


row("fft.fft fft.ifft", wave, "iufhc", **WAVE)
row("fft.rfft fft.ihfft", wave, "iufh", **WAVE)
row("fft.irfft fft.hfft", lambda d: (d.x(d.pick((3,), (2, 4))), d.pick(None, 5, 6), -1, d.pick(*NORMS)), "fc", **WAVE)
row("fft.fftn fft.ifftn fft.fft2 fft.ifft2", waves, "iufc", **WAVE)
row("fft.rfftn fft.rfft2", waves, "iuf", **WAVE)
row("fft.irfftn fft.irfft2", waves, "fc", **WAVE)
row("fft.fftshift fft.ifftshift", lambda d: (lambda x: (x, d.axes(x)))(d.x(d.shape(1))))

# ---- new arrays
row("fft.fftfreq fft.rfftfreq", lambda d: (d.int(1, 7), d.pick(1.0, 0.5)), "f")
row("zeros ones", lambda d: (d.shape(), d.dtype))
row("empty", lambda d: (d.shape(), d.dtype), reference=np.zeros, view=lambda out, *args: out * 0)
row("full", lambda d: (d.shape(), 1, d.dtype))
row("eye tri", lambda d: (d.int(0, 4), d.pick(None, 3), d.int(-2, 2), d.dtype))
row("identity", lambda d: (d.int(0, 4), d.dtype))
row("arange", lambda d: (*d.pick((5,), (2, 7), (7, 2, -2), (0, 3, 2), (3, 3)), {"dtype": d.dtype}), "if")
row("linspace", lambda d: (d.pick(0, -1.5), d.pick(2, 7.25), d.int(0, 6), d.flag(), False, d.dtype), "fc")
row("linspace", lambda d: (d.x(2), d.x(2), d.int(2, 6), d.flag(), {"axis": d.pick(0, -1)}), "f", special=False)
row("logspace", lambda d: (0, 2, d.int(0, 5), d.flag(), {"base": d.pick(2.0, 10.0), "dtype": d.dtype}), "f", slack=10)
row("geomspace", lambda d: (1.0, 30.0, d.int(1, 5), d.flag(), {"dtype": d.dtype}), "f", slack=10)
row("bartlett blackman hamming hanning", lambda d: (d.int(-1, 7),), "f", slack=4)
row("kaiser", lambda d: (d.int(0, 7), d.pick(0.0, 8.5)), "f", slack=4)
row("indices", lambda d: (d.pick((2, 3), (), (0, 2)), {"sparse": d.flag(), "dtype": np.int64}), "i")
row("tril_indices triu_indices", lambda d: (d.int(1, 4), d.int(-1, 1), d.pick(None, 3)), "i")
row("diag_indices", lambda d: (d.int(0, 3), d.int(1, 3)), "i")
row("broadcast_shapes", lambda d: d.pick(((3, 1), (4,)), ((), (2,)), ((1, 0), (5, 1))), "f")
row("fromfunction", lambda d: (lambda i, j: i * 2 + j, d.pick((2, 3), (1, 1)), {"dtype": d.dtype}), "if")

# Their results are no arrays of numbers, or they read and write files and settings, or take functions: other tests of
# this folder have them.
ELSEWHERE = """
    can_cast finfo iinfo isdtype issubdtype promote_types result_type array_repr array_str get_printoptions
    set_printoptions printoptions from_dlpack frombuffer fromfile fromiter fromstring load save savez vectorize
    frompyfunc mask_indices einsum_path
""".split()
