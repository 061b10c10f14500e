"""Products of matrices that come in groups of different sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fgrad.lax.contraction import contract, operand_dtype
from fgrad.lax.dimension_numbers import need
from fgrad.numpy.common import public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, lift, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import to_dtype
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op


class RaggedDotDimensionNumbers(NamedTuple):
    """Which axes are which in `ragged_dot_general`.

    dot_dimension_numbers    as in `dot_general`
    lhs_ragged_dimensions    the one axis of lhs along which groups follow each other
    rhs_group_dimensions     the axis of rhs that counts groups, where the ragged axis stays in the result; else none
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Consecutive groups of rows of lhs[m, k], each times its own matrix of rhs[g, k, n]; gives [m, n].

    group_sizes   integers [g]: how many rows each group has. Rows beyond their sum give 0.

    >>> lax.ragged_dot(fnp.ones((3, 2)), fnp.array([[[1.0], [2.0]], [[10.0], [20.0]]]), fnp.array([1, 2]))
    Array([[ 3.],
           [30.],
           [30.]], dtype=float32)
    """
    shapes = lift(lhs).shape, lift(rhs).shape
    need(
        len(shapes[0]) == 2 and len(shapes[1]) == 3,
        f"ragged_dot needs lhs [m, k] and rhs [g, k, n], got {shapes[0]} and {shapes[1]}",
    )
    numbers = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    return ragged_dot_general(lhs, rhs, group_sizes, numbers, precision, preferred_element_type)


@public(static=("ragged_dot_dimension_numbers", "precision", "preferred_element_type", "group_offset"))
def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
) -> Array:
    """A contraction along one axis of which groups of different sizes follow each other, each a product of its own.

    group_sizes [g], or [*p, g]: the sizes for each position along the axes of lhs that stand before the ragged one
    among those of its kind (batch axes first). By what the ragged axis is in `dot_general`:

    - an axis of the result: each group has its own rhs, of axis rhs_group_dimensions; gives [batch.., lhs.., rhs..]
    - a summed axis: each group is a sum of its own; gives [g, batch.., lhs.., rhs..]
    - a batch axis: gives [batch.., lhs.., rhs..]

    What lies beyond the last group counts as 0. Raises DimensionNumbersError where numbers and shapes do not fit.

    >>> numbers = RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), (1,), ())
    >>> ragged_dot_general(fnp.ones((2, 5)), fnp.ones((5, 1)), fnp.array([3, 2]), numbers).reshape(2, 2)
    Array([[3., 3.],
           [2., 2.]], dtype=float32)
    """
    if group_offset is not None:
        raise NotImplementedError("ragged_dot_general with group_offset; slice rhs and group_sizes instead")
    (x, y), dtype, weak = promoted(lhs, rhs)
    sizes = cast_node(group_sizes, dt.int64)
    dot_numbers, ragged_dims, group_dims = ragged_dot_dimension_numbers
    ((xs, ys), (xb, yb)) = [[[int(a) for a in side] for side in pair] for pair in dot_numbers]
    need(
        len(ragged_dims) == 1,
        f"ragged_dot_general expects exactly one lhs ragged dimension, got {tuple(ragged_dims)}",
    )
    ragged = int(ragged_dims[0])
    need(
        0 <= ragged < x.ndim,
        "ragged_dot_general requires lhs ragged dimension numbers to be nonnegative and less than the number of axes "
        f"of the lhs, got {ragged} for {x.ndim} axes",
    )
    for a, b, what in ((xs, ys, "contracting"), (xb, yb, "batch")):
        need(
            [x.shape[i] for i in a] == [y.shape[i] for i in b],
            f"ragged_dot_general: the {what} axes {tuple(a)} of lhs {x.shape} and {tuple(b)} of rhs {y.shape} must "
            "have the same sizes",
        )
    stays = ragged not in xs and ragged not in xb
    groups = [int(d) for d in group_dims]
    if not stays:
        need(
            not groups,
            "ragged_dot_general requires zero group dimensions in the rhs when lhs ragged dimension is contracting or "
            f"batch, got {tuple(groups)}",
        )
    else:
        need(
            len(groups) == 1,
            "ragged_dot_general requires exactly one rhs group dimension when lhs ragged dimension is noncontracting, "
            f"got {tuple(groups)}",
        )
        need(
            0 <= groups[0] < y.ndim and groups[0] not in (*ys, *yb),
            "ragged_dot_general requires rhs group dimension numbers to be distinct from contracting and batch "
            f"dimensions, got {tuple(groups)}",
        )
    kind = xs if ragged in xs else xb if ragged in xb else [i for i in range(x.ndim) if i not in (*xs, *xb)]
    before = kind[: kind.index(ragged)]
    prefix = before if ragged in xb else [*xb, *before]
    count = sizes.shape[-1] if sizes.ndim else 0
    expected = (*[x.shape[i] for i in prefix], count)
    need(
        sizes.ndim == 1 or sizes.shape == expected,
        f"expected group_sizes to have shape {expected}, got {sizes.shape}",
    )
    if stays:
        need(
            y.shape[groups[0]] == count,
            f"expected rhs group dimension size to be {count}, got {y.shape[groups[0]]}",
        )
    preferred = None if preferred_element_type is None else to_dtype(preferred_element_type)
    inner = operand_dtype(dtype, preferred)
    x, y = build.cast(x, inner), build.cast(y, inner)
    inside = _inside(sizes, x.shape, prefix if sizes.ndim > 1 else [], ragged)
    if ragged in xb:
        inside = build.reduce_(inside, [0], Op.OR)
        out = contract(build.where(inside, x, build.zeros_like(x)), y, (xs, ys), (xb, yb))
        return Tracer(build.cast(out, preferred or dtype), weak and preferred is None)
    spread = build.expand(x, [(0, count)])
    own = build.where(inside, spread, build.zeros_like(spread))
    sums, batch = [i + 1 for i in xs], [i + 1 for i in xb]
    if stays:
        out = contract(own, y, ([0, *sums], [groups[0], *ys]), (batch, yb))
    else:  # the axis of groups is the first of lhs in the result
        out = contract(own, y, (sums, ys), (batch, yb))
        nb = len(xb)
        out = build.permute(out, [nb, *range(nb), *range(nb + 1, out.ndim)])
    return Tracer(build.cast(out, preferred or dtype), weak and preferred is None)


def _inside(sizes: UOp, shape: tuple[int, ...], prefix: Sequence[int], ragged: int) -> UOp:
    """bool [g, *shape]: whether a place along the axis `ragged` is in a group. sizes: [sizes of axes `prefix`.., g]."""
    last = sizes.ndim - 1
    ends = uop(Op.PREFIX, (sizes,), (Op.ADD, last, False))
    begins = build.sub(ends, sizes)
    place = build.iota_along((*sizes.shape, shape[ragged]), last + 1)
    wide = [(last + 1, shape[ragged])]
    inside = build.and_(build.le(build.expand(begins, wide), place), build.lt(place, build.expand(ends, wide)))
    axes = [*prefix, ragged]
    order = sorted(range(len(axes)), key=axes.__getitem__)
    inside = build.permute(inside, [last, *[i if i < last else last + 1 for i in order]])
    return build.expand(inside, [(i + 1, n) for i, n in enumerate(shape) if i not in axes])


__all__ = ["RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general"]
