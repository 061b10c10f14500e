"""Convolution: windows of the input, multiplied with the kernel and summed.

The sum runs over one index space [batch, group, output feature, output position.., input feature,
kernel position..], so it
is a contraction like any other, and so are its derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.lax.contraction import operand_dtype
from fgrad.lax.shapes import padded
from fgrad.lax.windows import pads_of
from fgrad.numpy.common import public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop.dtype import to_dtype
from fgrad.uop.node import UOp


class ConvDimensionNumbers(NamedTuple):
    """Where the axes of a convolution stand.

    (batch, feature, spatial..) of lhs and out, (output feature, input feature, spatial..) of rhs.

    >>> conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 16), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


def _spec(letters: str, first: str, ndim: int) -> tuple[int, ...]:
    spatial = [c for c in letters if c not in first]
    if len(letters) != ndim or len(set(letters)) != ndim or any(c not in letters for c in first):
        raise note_user_line(
            ArgumentError(
                f"dimension_numbers {letters!r} must hold {first[0]}, {first[1]} and {ndim - 2} spatial letters"
            )
        )
    return (letters.index(first[0]), letters.index(first[1]), *[letters.index(c) for c in spatial])


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """The `dimension_numbers` of convolutions, worked out.

    dimension_numbers   None: (NCHW, OIHW, NCHW); or three strings such as ("NHWC", "HWIO", "NHWC")

    >>> conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC")).lhs_spec
    (0, 3, 1, 2)
    """
    ndim = len(lhs_shape)
    if len(rhs_shape) != ndim:
        raise note_user_line(
            ShapeError(f"convolution needs lhs and rhs of as many axes, got {tuple(lhs_shape)} and {tuple(rhs_shape)}")
        )
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if dimension_numbers is None:
        plain = tuple(range(ndim))
        return ConvDimensionNumbers(plain, plain, plain)
    if len(dimension_numbers) != 3:
        raise note_user_line(ArgumentError(f"dimension_numbers needs three specifications, got {dimension_numbers!r}"))
    lhs, rhs, out = dimension_numbers
    if not isinstance(lhs, str):
        return ConvDimensionNumbers(tuple(lhs), tuple(rhs), tuple(out))
    specs = [_spec(lhs, "NC", ndim), _spec(rhs, "OI", ndim), _spec(out, "NC", ndim)]
    order = [c for c in lhs if c not in "NC"]  # the spatial letters of lhs say which axis is which

    def aligned(letters: str, spec: tuple[int, ...]) -> tuple[int, ...]:
        if sorted(c for c in letters if c not in "NCOI") != sorted(order):
            raise note_user_line(
                ArgumentError(f"dimension_numbers {dimension_numbers!r} must name the same spatial axes three times")
            )
        return (*spec[:2], *[letters.index(c) for c in order])

    return ConvDimensionNumbers(specs[0], aligned(rhs, specs[1]), aligned(out, specs[2]))


def _positive(values: Any, n: int, what: str) -> tuple[int, ...]:
    out = (1,) * n if values is None else tuple([int(v) for v in values])
    if len(out) != n or any(v < 1 for v in out):
        raise note_user_line(ArgumentError(f"convolution needs {n} {what} of at least 1, got {values!r}"))
    return out


def convolve(
    x: UOp,
    w: UOp,
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    grown: Sequence[int],
    spaced: Sequence[int],
    groups: int,
    batch_groups: int,
) -> UOp:
    """x[N, C, *s], w[O, I, *k] -> [N, O, *o]; `grown` and `spaced` are the dilations of x and w."""
    n, c = x.shape[:2]
    o, i = w.shape[:2]
    rows = [
        (0, 0, 0),
        (0, 0, 0),
        *[(lo, hi, d - 1) for (lo, hi), d in zip(pads, grown, strict=True)],
    ]
    x = padded(x, rows, build.const(0, x.dtype))
    g = max(groups, batch_groups)
    if batch_groups > 1:
        x = build.reshape(x, (g, n // g, c, *x.shape[2:]))
        x = build.permute(x, [1, 0, *range(2, x.ndim)])
        n //= g
    else:
        x = build.reshape(x, (n, g, c // g, *x.shape[2:]))
    dims = w.ndim - 2
    for a in range(dims):
        x = build.window(x, 3 + a, w.shape[2 + a], strides[a], spaced[a])
    places = x.shape[3 : 3 + dims]
    x = build.permute(x, [0, 1, *range(3, 3 + dims), 2, *range(3 + dims, 3 + 2 * dims)])
    x = build.expand(x, [(2, o // g)])
    w = build.reshape(w, (g, o // g, i, *w.shape[2:]))
    w = build.expand(w, [(0, n), *[(3 + a, m) for a, m in enumerate(places)]])
    total = build.reduce_(build.mul(x, w), range(3 + dims, 4 + 2 * dims))
    return build.reshape(total, (n, o, *places))


@public(
    static=(
        "window_strides", "padding", "lhs_dilation", "rhs_dilation", "dimension_numbers", "feature_group_count",
        "batch_group_count", "precision", "preferred_element_type", "out_sharding",
    )
)  # fmt: skip
def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: None = None,
) -> Array:
    """Convolution (as in neural networks: the kernel is not flipped) over any number of spatial axes.

    lhs                  input, by default [batch, feature, spatial..]
    rhs                  kernel, by default [output feature, input feature / feature_group_count, spatial..]
    window_strides       one for each spatial axis
    padding              "SAME", "SAME_LOWER", "VALID", or one (low, high) for each spatial axis, negative ones cut
    lhs_dilation         places between input elements (a stride of the transposed convolution)
    rhs_dilation         places between kernel elements
    dimension_numbers    the order of axes, as `conv_dimension_numbers` takes it
    feature_group_count  features are convolved in so many groups apart from each other
    batch_group_count    the same for the batch: group i goes to the i-th part of the output features

    The dtype is the promoted one (or preferred_element_type); half types are added in float32. Raises ShapeError
    when features and groups do not fit.

    >>> conv_general_dilated(fnp.ones((1, 1, 4)), fnp.ones((1, 1, 2)), (1,), "VALID")
    Array([[[2., 2., 2.]]], dtype=float32)
    """
    (x, w), dtype, weak = promoted(lhs, rhs)
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    x, w = build.permute(x, numbers.lhs_spec), build.permute(w, numbers.rhs_spec)
    dims = x.ndim - 2
    strides = _positive(window_strides, dims, "window_strides")
    grown = _positive(lhs_dilation, dims, "lhs_dilation factors")
    spaced = _positive(rhs_dilation, dims, "rhs_dilation factors")
    _check_features(x.shape, w.shape, feature_group_count, batch_group_count)
    sizes = [(m - 1) * d + 1 if m else 0 for m, d in zip(x.shape[2:], grown, strict=True)]
    spans = [(m - 1) * d + 1 if m else 0 for m, d in zip(w.shape[2:], spaced, strict=True)]
    pads = pads_of(padding, sizes, spans, strides)
    preferred = None if preferred_element_type is None else to_dtype(preferred_element_type)
    inner = operand_dtype(dtype, preferred)
    out = convolve(
        build.cast(x, inner),
        build.cast(w, inner),
        strides,
        pads,
        grown,
        spaced,
        feature_group_count,
        batch_group_count,
    )
    back = [0] * out.ndim
    for i, a in enumerate(numbers.out_spec):
        back[a] = i
    return Tracer(build.permute(build.cast(out, preferred or dtype), back), weak and preferred is None)


def _check_features(x: tuple[int, ...], w: tuple[int, ...], groups: int, batch_groups: int) -> None:
    if groups < 1 or batch_groups < 1 or (groups > 1 and batch_groups > 1):
        raise note_user_line(
            ArgumentError(
                "convolution needs feature_group_count and batch_group_count of at least 1, one "
                "of them exactly 1, got "
                f"{groups} and {batch_groups}"
            )
        )
    if x[1] != w[1] * groups:
        raise note_user_line(
            ShapeError(
                f"convolution: the input has {x[1]} features, the kernel takes {w[1]} in each "
                f"of {groups} groups; check "
                "dimension_numbers"
            )
        )
    if w[0] % groups or w[0] % batch_groups or x[0] % batch_groups:
        raise note_user_line(
            ShapeError(
                f"convolution: {w[0]} output features (batch {x[0]}) cannot be divided into "
                f"{max(groups, batch_groups)} groups"
            )
        )


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """`conv_general_dilated` with default axes and without dilation.

    Arguments as there: lhs [batch, feature, spatial..], rhs [output feature, input feature, spatial..].

    >>> conv(fnp.ones((1, 2, 4, 4)), fnp.ones((3, 2, 2, 2)), (1, 1), "SAME").shape
    (1, 3, 4, 4)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """`conv_general_dilated` with default axes.

    Arguments as there; a dilation of None is 1.

    >>> conv_with_general_padding(fnp.ones((1, 2, 4)), fnp.ones((3, 2, 2)), (1,), [(1, 1)], None, None).shape
    (1, 3, 5)
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def _transposed_pads(span: int, stride: int, padding: Any) -> tuple[int, int]:
    """Padding with which a convolution of the dilated input undoes the shape of a strided one."""
    if padding == "SAME":
        total = span + stride - 2
        low = span - 1 if stride > span - 1 else -(-total // 2)
    elif padding == "VALID":
        total = span + stride - 2 + max(span - stride, 0)
        low = span - 1
    else:
        raise note_user_line(ArgumentError(f'padding is "SAME", "VALID" or pairs of ints, got {padding!r}'))
    return low, total - low


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The transposed convolution ("deconvolution"): `strides` spread the input apart.

    strides            the places between input elements
    padding            "SAME" gives size * stride, "VALID" the full size, or explicit pairs for the dilated input
    rhs_dilation       places between kernel elements
    dimension_numbers  default NHWC, HWIO, NHWC (and alike for 1 and 3 spatial axes)
    transpose_kernel   flip the kernel and exchange its feature axes: then this is the gradient of a convolution

    >>> conv_transpose(fnp.ones((1, 3, 1)), fnp.ones((2, 1, 1)), (2,), "SAME")[0, :, 0]
    Array([1., 1., 1., 1., 1., 1.], dtype=float32)
    """
    (x, w), _, _ = promoted(lhs, rhs)
    if dimension_numbers is None:
        spatial = {3: "H", 4: "HW", 5: "HWD"}.get(x.ndim)
        if spatial is None:
            raise note_user_line(ShapeError(f"conv_transpose of {x.ndim} axes needs dimension_numbers"))
        dimension_numbers = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    sizes = [w.shape[a] for a in numbers.rhs_spec[2:]]
    spaced = _positive(rhs_dilation, len(sizes), "rhs_dilation factors")
    steps = _positive(strides, len(sizes), "strides")
    pads = padding
    if isinstance(padding, str):
        spans = [(k - 1) * d + 1 for k, d in zip(sizes, spaced, strict=True)]
        pads = [_transposed_pads(k, s, padding) for k, s in zip(spans, steps, strict=True)]
    kernel: Any = rhs
    if transpose_kernel:
        o, i = numbers.rhs_spec[:2]
        axes = list(range(w.ndim))
        axes[o], axes[i] = axes[i], axes[o]
        kernel = _flipped(rhs, tuple(numbers.rhs_spec[2:]), tuple(axes))
    return conv_general_dilated(
        lhs, kernel, (1,) * len(sizes), pads, steps, spaced, numbers, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


@public(static=("spatial", "axes"))
def _flipped(w: ArrayLike, spatial: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    (node,), _, weak = promoted(w)
    return Tracer(build.permute(build.flip(node, spatial), axes), weak)


@public(
    static=(
        "filter_shape",
        "window_strides",
        "padding",
        "lhs_dilation",
        "rhs_dilation",
        "dimension_numbers",
        "precision",
    )
)
def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Array:
    """The windows that a convolution sees: its features are (input feature, kernel position..), flattened.

    lhs [batch, feature, spatial..] -> [batch, feature * prod(filter_shape), spatial..], by default; other arguments
    as in `conv_general_dilated`.

    >>> conv_general_dilated_patches(fnp.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")
    Array([[[0., 1., 2.],
            [1., 2., 3.]]], dtype=float32)
    """
    (x,), _, weak = promoted(lhs)
    fake = (1, 1, *filter_shape)
    if dimension_numbers is None or isinstance(dimension_numbers, ConvDimensionNumbers):
        rhs_shape: Sequence[int] = fake
    else:
        rhs_shape = (1,) * x.ndim
    numbers = conv_dimension_numbers(x.shape, rhs_shape, dimension_numbers)
    x = build.permute(x, numbers.lhs_spec)
    dims = x.ndim - 2
    strides = _positive(window_strides, dims, "window_strides")
    grown = _positive(lhs_dilation, dims, "lhs_dilation factors")
    spaced = _positive(rhs_dilation, dims, "rhs_dilation factors")
    sizes = [(m - 1) * d + 1 for m, d in zip(x.shape[2:], grown, strict=True)]
    spans = [(m - 1) * d + 1 for m, d in zip(filter_shape, spaced, strict=True)]
    pads = pads_of(padding, sizes, spans, strides)
    rows = [
        (0, 0, 0),
        (0, 0, 0),
        *[(lo, hi, d - 1) for (lo, hi), d in zip(pads, grown, strict=True)],
    ]
    x = padded(x, rows, build.const(0, x.dtype))
    for a in range(dims):
        x = build.window(x, 2 + a, filter_shape[a], strides[a], spaced[a])
    places = x.shape[2 : 2 + dims]
    x = build.permute(x, [0, 1, *range(2 + dims, 2 + 2 * dims), *range(2, 2 + dims)])
    x = build.reshape(x, (x.shape[0], x.shape[1] * math.prod(filter_shape), *places))
    back = [0] * x.ndim
    for i, a in enumerate(numbers.out_spec):
        back[a] = i
    return Tracer(build.permute(x, back), weak)


def _filled_padding(padding: Any, sizes: Sequence[int], spans: Sequence[int], strides: Sequence[int]) -> Any:
    return [(0, 0)] * len(sizes) if padding is None else pads_of(padding, sizes, spans, strides)


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: Any,
    batch_group_count: int = 1,
) -> tuple[int, ...]:
    """The shape of a convolution of [batch, feature, spatial..] by [out, in, spatial..].

    pads   one (low, high) for each spatial axis, or the name of a padding

    >>> conv_shape_tuple((1, 2, 8, 8), (3, 2, 3, 3), (2, 2), "SAME")
    (1, 3, 4, 4)
    """
    sizes, spans = list(lhs_shape[2:]), list(rhs_shape[2:])
    rows = zip(sizes, spans, strides, _filled_padding(pads, sizes, spans, strides), strict=True)
    places = [max(0, (n + lo + hi - k) // s + 1) for n, k, s, (lo, hi) in rows]
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *places)


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    dimension_numbers: Any,
) -> tuple[int, ...]:
    """The shape of a transposed convolution (conv_transpose), with any order of axes.

    >>> lax.conv_transpose_shape_tuple((1, 4, 4, 2), (3, 3, 2, 8), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))
    (1, 8, 8, 8)
    """
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    lhs, rhs = [lhs_shape[a] for a in numbers.lhs_spec], [rhs_shape[a] for a in numbers.rhs_spec]
    if isinstance(padding, str):
        padding = [_transposed_pads(k, s, padding) for k, s in zip(rhs[2:], window_strides, strict=True)]
    spread = [(n - 1) * s + 1 if n else 0 for n, s in zip(lhs[2:], window_strides, strict=True)]
    plain = conv_shape_tuple([*lhs[:2], *spread], rhs, (1,) * len(spread), padding)
    out = [0] * len(plain)
    for axis, n in zip(numbers.out_spec, plain, strict=True):
        out[axis] = n
    return tuple(out)


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    dimension_numbers: Any,
) -> tuple[int, ...]:
    """The shape of a convolution with any order of axes.

    Arguments as in `conv_general_dilated`.

    >>> conv_general_shape_tuple((1, 8, 8, 2), (3, 3, 2, 4), (1, 1), "VALID", ("NHWC", "HWIO", "NHWC"))
    (1, 6, 6, 4)
    """
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    plain = conv_shape_tuple(
        [lhs_shape[a] for a in numbers.lhs_spec], [rhs_shape[a] for a in numbers.rhs_spec], window_strides, padding
    )
    out = [0] * len(plain)
    for i, a in enumerate(numbers.out_spec):
        out[a] = plain[i]
    return tuple(out)


def conv_general_permutations(dimension_numbers: Any) -> tuple[Sequence[int], ...]:
    """The orders of axes of lhs, rhs and out that three strings such as ("NHWC", "HWIO", "NHWC") stand for.

    >>> lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    shape = (1,) * len(dimension_numbers[0])
    return tuple(conv_dimension_numbers(shape, shape, dimension_numbers))


__all__ = [
    "ConvDimensionNumbers", "conv", "conv_dimension_numbers", "conv_general_dilated",
    "conv_general_dilated_patches", "conv_general_permutations", "conv_general_shape_tuple",
    "conv_shape_tuple", "conv_transpose", "conv_transpose_shape_tuple", "conv_with_general_padding",
]  # fmt: skip
