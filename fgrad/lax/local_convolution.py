"""Convolution whose kernel differs from place to place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgrad.errors import ShapeError, note_user_line
from fgrad.lax.contraction import contract, operand_dtype
from fgrad.lax.convolution import conv_dimension_numbers, conv_general_dilated_patches
from fgrad.numpy.common import public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, lift, promoted
from fgrad.uop import build

__all__ = ["conv_general_dilated_local"]


@public(
    static=(
        "window_strides", "padding", "filter_shape", "lhs_dilation", "rhs_dilation", "dimension_numbers", "precision",
    )
)  # fmt: skip
def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Any,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Array:
    """A convolution with a kernel of its own at every place of the result.

    rhs            [out feature, in feature * prod(filter_shape), places of the result..], by default: the second axis
                   is laid out as the features of `conv_general_dilated_patches`
    filter_shape   the spatial sizes of a kernel

    Other arguments as in `conv_general_dilated`. Raises ShapeError where `rhs` does not fit.

    >>> conv_general_dilated_local(fnp.arange(3.0).reshape(1, 1, 3), fnp.ones((1, 2, 2)), (1,), "VALID", (2,))
    Array([[[1., 3.]]], dtype=float32)
    """
    (x, y), dtype, weak = promoted(lhs, rhs)
    numbers = conv_dimension_numbers(x.shape, y.shape, dimension_numbers)
    windows = lift(
        conv_general_dilated_patches(
            Tracer(x), filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers
        )
    ).node
    seen = build.permute(windows, numbers.out_spec)  # [batch, feature * kernel, places..]
    kernels = build.permute(y, numbers.rhs_spec)  # [out feature, feature * kernel, places..]
    if seen.shape[1:] != kernels.shape[1:]:
        raise note_user_line(
            ShapeError(
                f"conv_general_dilated_local needs kernels of {seen.shape[1]} elements for each of {seen.shape[2:]} "
                f"places, got {kernels.shape[1]} for {kernels.shape[2:]}"
            )
        )
    inner = operand_dtype(dtype, None)
    places = list(range(2, seen.ndim))
    out = contract(build.cast(seen, inner), build.cast(kernels, inner), ([1], [1]), (places, places))
    n = len(places)
    out = build.permute(out, [n, n + 1, *range(n)])
    back = sorted(range(out.ndim), key=numbers.out_spec.__getitem__)
    return Tracer(build.cast(build.permute(out, back), dtype), weak)
