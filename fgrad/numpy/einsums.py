"""einsum: sums of products by Einstein's convention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import DTypeLike, no_out, public
from fgrad.numpy.contraction import Labels, contract, greedy_path, product_dtypes, sizes_of
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build

__all__ = ["einsum", "einsum_path"]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


# ---- einsum
class _Spec:
    """Parsed subscripts: labels of every operand and the output, and their letters for messages."""

    def __init__(self, subscripts: str, ranks: Sequence[int]) -> None:
        text = subscripts.replace(" ", "")
        left, arrow, right = text.partition("->")
        terms = left.split(",")
        if len(terms) != len(ranks):
            raise note_user_line(ArgumentError(f"einsum: {subscripts!r} names {len(terms)} operands, got {len(ranks)}"))
        self.shown: dict[int, str] = {}
        widths = []
        for term, rank in zip(terms, ranks, strict=True):
            letters = term.replace("...", "")
            if "." in letters or not all(c.isalpha() for c in letters):
                raise note_user_line(
                    ArgumentError(f"einsum: {term!r} in {subscripts!r} is no term of letters and '...'")
                )
            width = rank - len(letters)
            if width < 0 or (width and "..." not in term):
                raise note_user_line(
                    ShapeError(f"einsum: {term!r} in {subscripts!r} names {len(letters)} axes, the operand has {rank}")
                )
            widths.append(width if "..." in term else 0)
        self.width = max(widths, default=0)
        self.labels = [self._term(t, w) for t, w in zip(terms, widths, strict=True)]
        if arrow:
            if right.count("...") > 1:
                raise note_user_line(ArgumentError(f"einsum: two ellipses in the output of {subscripts!r}"))
            self.out = self._term(right, self.width if "..." in right else 0)
            known = {a for own in self.labels for a in own}
            if len(set(self.out)) != len(self.out) or not set(self.out) <= known:
                raise note_user_line(
                    ArgumentError(
                        f"einsum: output {right!r} of {subscripts!r} repeats a letter or has one that no operand has"
                    )
                )
        else:
            once = [a for a in dict.fromkeys(a for own in self.labels for a in own if a >= 0)
                    if sum(own.count(a) for own in self.labels) == 1]  # fmt: skip
            self.out = (*range(-self.width, 0), *sorted(once))

    def _term(self, term: str, width: int) -> Labels:
        before, dots, after = term.partition("...")
        labels: list[int] = []
        for c in before:
            labels.append(ord(c))
        labels.extend(range(-width, 0) if dots else ())
        for c in after:
            labels.append(ord(c))
        self.shown.update({ord(c): c for c in before + after})
        return tuple(labels)


def _interleaved(args: Sequence[Any]) -> tuple[str, list[Any]]:
    """einsum(x, [0, 1], y, [1, 2], [0, 2]) as subscripts and operands."""

    def term(axes: Sequence[Any]) -> str:
        return "".join("..." if i is Ellipsis else _LETTERS[i] for i in axes)

    pairs = len(args) // 2
    text = ",".join(term(args[2 * i + 1]) for i in range(pairs))
    if len(args) % 2:
        text += "->" + term(args[-1])
    return text, [args[2 * i] for i in range(pairs)]


def _path_of(optimize: Any, count: int) -> tuple[tuple[int, ...], ...] | None:
    """An explicit path; None: greedy."""
    if isinstance(optimize, list | tuple) and optimize and not isinstance(optimize[0], tuple | int):
        optimize = optimize[1:]
    if isinstance(optimize, list | tuple):
        return tuple([tuple(step) for step in optimize])
    if optimize is False:
        return tuple([(0, 1)] + [(0, k) for k in range(count - 2, 0, -1)]) if count > 1 else ()
    return None


def einsum(
    subscripts: Any,
    *operands: ArrayLike,
    out: None = None,
    optimize: Any = True,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Sums of products by Einstein's convention.

    subscripts   "ij,jk->ik"; "..." stands for axes that broadcast; without "->" letters that occur
                 once remain, sorted
    optimize     a path as einsum_path gives, or False for left to right; else pairs are chosen
                 greedily

    >>> einsum("ij,j", array([[1., 2.], [3., 4.]]), array([1., 1.]))
    Array([3., 7.], dtype=float32)
    """
    no_out(out, "einsum")
    if not isinstance(subscripts, str):
        subscripts, operands = (
            _interleaved((subscripts, *operands))[0],
            tuple(_interleaved((subscripts, *operands))[1]),
        )
    if not operands:
        raise note_user_line(ArgumentError("einsum needs at least one operand"))
    path = _path_of(optimize, len(operands))
    return _einsum(subscripts, list(operands), path, preferred_element_type)


@public(static=("subscripts", "path", "preferred"))
def _einsum(subscripts: str, operands: Any, path: Any, preferred: DTypeLike) -> Array:
    nodes, dtype, weak = promoted(*operands)
    spec = _Spec(subscripts, [n.ndim for n in nodes])
    wide, kind = product_dtypes(dtype, preferred)
    sizes = sizes_of(nodes, spec.labels, "einsum", spec.shown)
    if len(nodes) == 1:  # no products: a plain sum, in its own accumulator
        return Tracer(build.cast(contract(nodes, spec.labels, spec.out, sizes), kind), weak)
    y = contract([build.cast(n, wide) for n in nodes], spec.labels, spec.out, sizes, path)
    return Tracer(build.cast(y, kind), weak and preferred is None)


def einsum_path(subscripts: Any, *operands: ArrayLike, optimize: Any = "greedy") -> tuple[list[Any], str]:
    """(path, description): which operands einsum combines at each step.

    Each step takes operands out by position and appends their product, as in NumPy's paths.

    optimize   "greedy" or "optimal"

    >>> einsum_path("ij,jk,kl->il", ones((2, 9)), ones((9, 3)), ones((3, 4)))[0]
    ['einsum_path', (0, 1), (0, 1)]
    """
    if not isinstance(subscripts, str):
        subscripts, operands = (
            _interleaved((subscripts, *operands))[0],
            tuple(_interleaved((subscripts, *operands))[1]),
        )
    shapes = [x.shape if isinstance(x, Array) else np.shape(x) for x in operands]
    spec = _Spec(subscripts, [len(s) for s in shapes])
    sizes: dict[int, int] = {}
    for own, shape in zip(spec.labels, shapes, strict=True):
        for a, n in zip(own, shape, strict=True):
            sizes[a] = max(sizes.get(a, 1), n)
    path = _path_of(optimize, len(shapes)) or greedy_path(spec.labels, spec.out, sizes) or [(0,)]
    text = f"{subscripts}: " + ", ".join(map(str, path))
    return ["einsum_path", *path], text
