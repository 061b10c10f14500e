"""Sums of products over labelled axes: the common form of dot, matmul, tensordot and einsum.

A contraction is REDUCE(ADD, MUL(x, y)) over an index space: both operands are permuted and expanded
into it, never
copied. Lowering recognises matrix products in that form. Small floats are multiplied and summed in
float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fgrad.errors import ShapeError, note_user_line
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, to_dtype
from fgrad.uop.node import UOp

Labels = tuple[int, ...]

__all__ = ["Labels", "contract", "product_dtypes", "sizes_of"]


def product_dtypes(dtype: DType, preferred: Any) -> tuple[DType, DType]:
    """-> (dtype that products and sums are made in, dtype of the result)."""
    out = dtype if preferred is None else to_dtype(preferred)
    wide = dt.accumulator(dtype)
    if preferred is not None and dt.promote((wide, False), (out, False))[0] is out:
        wide = out
    return wide, out


def sizes_of(operands: Sequence[UOp], labels: Sequence[Labels], name: str, shown: Mapping[int, str]) -> dict[int, int]:
    """The size of every label; 1 broadcasts. Raises ShapeError naming a label with two sizes."""
    sizes: dict[int, int] = {}
    for x, own in zip(operands, labels, strict=True):
        for n, label in zip(x.shape, own, strict=True):
            known = sizes.get(label, 1)
            if n != known and n != 1 and known != 1:
                shapes = ", ".join(str(o.shape) for o in operands)
                raise note_user_line(
                    ShapeError(
                        f"{name}: axis {shown.get(label, label)!s} has {known} and {n} elements in shapes {shapes}"
                    )
                )
            sizes[label] = n if known == 1 else known
    return sizes


def _diagonals(x: UOp, labels: Labels) -> tuple[UOp, Labels]:
    """Repeated labels of one operand: take the diagonal."""
    while len(set(labels)) != len(labels):
        label = next(a for a in labels if labels.count(a) > 1)
        i, j = [k for k, a in enumerate(labels) if a == label][:2]
        n = x.shape[i]
        rest = [k for k in range(x.ndim) if k not in (i, j)]
        flat = build.reshape(build.permute(x, (*rest, i, j)), (*[x.shape[k] for k in rest], n * n))
        stop = (n - 1) * (n + 1) + 1 if n else 0
        x = build.slice_axis(flat, len(rest), 0, stop, n + 1)
        labels = (*[labels[k] for k in rest], label)
    return x, labels


def _into_space(x: UOp, labels: Labels, space: Labels, sizes: Mapping[int, int]) -> UOp:
    """x permuted and expanded so that its axes are `space`."""
    keep = [k for k, label in enumerate(labels) if not (x.shape[k] == 1 and sizes[label] != 1)]
    if len(keep) != len(labels):
        x = build.reshape(x, tuple([x.shape[k] for k in keep]))
        labels = tuple([labels[k] for k in keep])
    x = build.permute(x, [labels.index(a) for a in space if a in labels])
    return build.expand(x, [(k, sizes[a]) for k, a in enumerate(space) if a not in labels])


def _sum_alone(x: UOp, labels: Labels, needed: set[int]) -> tuple[UOp, Labels]:
    """Sum over the labels that nobody else has."""
    gone = [k for k, a in enumerate(labels) if a not in needed]
    return build.reduce_(x, gone), tuple([a for a in labels if a in needed])


def pair(x: UOp, xl: Labels, y: UOp, yl: Labels, keep: Sequence[int], sizes: Mapping[int, int]) -> tuple[UOp, Labels]:
    """The contraction of two operands onto the labels `keep`, in that order."""
    out = tuple([a for a in keep if a in xl or a in yl])
    x, xl = _sum_alone(x, xl, {*out, *yl})
    y, yl = _sum_alone(y, yl, {*out, *xl})
    summed = tuple([a for a in xl if a not in out])
    space = (*out, *summed)
    product = build.mul(_into_space(x, xl, space, sizes), _into_space(y, yl, space, sizes))
    return build.reduce_(product, range(len(out), len(space))), out


def greedy_path(labels: Sequence[Labels], out: Labels, sizes: Mapping[int, int]) -> list[tuple[int, ...]]:
    """Pairs of positions, as einsum_path gives them: the pair first whose result grows memory
    least.
    """

    def count(ls: Any) -> int:
        return math.prod(sizes[a] for a in ls)

    left = list(labels)
    path: list[tuple[int, ...]] = []
    while len(left) > 1:
        best: tuple[tuple[int, int, int, int], tuple[int, ...]] | None = None
        for i in range(len(left)):
            for j in range(i + 1, len(left)):
                others = set(out).union(*[left[k] for k in range(len(left)) if k not in (i, j)])
                both = set(left[i]) | set(left[j])
                kept = both & others
                apart = not set(left[i]) & set(left[j])
                cost = (int(apart), count(kept) - count(left[i]) - count(left[j]), count(both), i)
                if best is None or cost < best[0]:
                    best = (cost, (i, j))
        assert best is not None
        i, j = best[1]
        others = set(out).union(*[left[k] for k in range(len(left)) if k not in (i, j)])
        merged = tuple([a for a in dict.fromkeys((*left[i], *left[j])) if a in others])
        left = [left[k] for k in range(len(left)) if k not in (i, j)] + [merged]
        path.append(best[1])
    return path


def contract(
    operands: Sequence[UOp],
    labels: Sequence[Labels],
    out: Labels,
    sizes: Mapping[int, int],
    path: Sequence[tuple[int, ...]] | None = None,
) -> UOp:
    """The sum of products of the operands over all labels that are not in `out`.

    path   which operands to combine, one tuple of positions for each step; None chooses greedily
    """
    pairs = [_diagonals(x, own) for x, own in zip(operands, labels, strict=True)]
    left = [p[0] for p in pairs]
    names = [p[1] for p in pairs]
    if path is None:
        path = greedy_path(names, out, sizes)
    for step in path:
        if len(step) < 2:
            continue
        first, *more = [(left[i], names[i]) for i in step]
        left = [x for k, x in enumerate(left) if k not in step]
        names = [a for k, a in enumerate(names) if k not in step]
        x, xl = first
        for k, (y, yl) in enumerate(more):
            needed = set(out).union(*names, *[p[1] for p in more[k + 1 :]])
            last = not names and k == len(more) - 1
            keep = out if last else tuple([a for a in dict.fromkeys((*xl, *yl)) if a in needed])
            x, xl = pair(x, xl, y, yl, keep, sizes)
        left.append(x)
        names.append(xl)
    x, xl = _sum_alone(left[0], names[0], set(out))
    return _into_space(x, xl, out, sizes)
