"""Products of arrays: dot, matmul, einsum and what is built on them; differences, integrals, convolutions.

`precision` is accepted everywhere and changes nothing: products are always computed at the full precision of the
dtype. `preferred_element_type` is the dtype to accumulate in and return.
"""
from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import DTypeLike, axis_of, broadcast, lift, no_out, public
from fgrad.numpy.contraction import Labels, contract, greedy_path, product_dtypes, sizes_of
from fgrad.numpy.reductions import prefix
from fgrad.numpy.shapes import joined
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

__all__ = [
    "convolve", "correlate", "cross", "diff", "dot", "ediff1d", "einsum", "einsum_path", "gradient", "inner", "kron",
    "matmul", "matvec", "outer", "tensordot", "trapezoid", "vander", "vdot", "vecdot", "vecmat",
]  # fmt: skip


def _conjugate(x: UOp) -> UOp:
    return build.complex_(build.real(x), build.neg(build.imag(x))) if x.dtype.is_complex else x


def _contract(
    name: str, a: ArrayLike, b: ArrayLike, la: Labels, lb: Labels, out: Labels, preferred: DTypeLike,
    conjugate: bool = False,
) -> Array:  # fmt: skip
    (x, y), dtype, weak = promoted(a, b)
    wide, kind = product_dtypes(dtype, preferred)
    for label in [a for a in la if a in lb and a not in out]:  # summed axes do not broadcast
        n, m = x.shape[la.index(label)], y.shape[lb.index(label)]
        if n != m:
            raise note_user_line(
                ShapeError(
                    f"{name}: shapes {x.shape} and {y.shape} do not fit: axis {la.index(label)} of the first has {n} elements, "
                    f"axis {lb.index(label)} of the second {m}; transpose one of them?"
                )
            )
    sizes = sizes_of((x, y), (la, lb), name, {})
    x = _conjugate(x) if conjugate else x
    z = contract((build.cast(x, wide), build.cast(y, wide)), (la, lb), out, sizes)
    return Tracer(build.cast(z, kind), weak and preferred is None)


def _need_axes(name: str, **arrays: tuple[Tracer, int]) -> None:
    for which, (t, least) in arrays.items():
        if t.ndim < least:
            raise note_user_line(
                ShapeError(f"{name}: {which} needs at least {least} axes, got shape {t.shape}"
                           + ("; use multiply for scalars" if t.ndim == 0 else ""))  # fmt: skip
            )


@public(static=("precision", "preferred_element_type"))
def dot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    """The sum of products over the last axis of `a` and the second last (or only) one of `b`.

    >>> dot(array([1., 2.]), array([3., 4.]))
    Array(11., dtype=float32)
    """
    x, y = lift(a), lift(b)
    if not x.ndim or not y.ndim:
        return _contract("dot", a, b, tuple(range(x.ndim)), tuple(range(y.ndim)), tuple(range(max(x.ndim, y.ndim))),
                         preferred_element_type)  # fmt: skip
    la = tuple(range(x.ndim))
    rest = list(range(100, 100 + y.ndim - 1))
    lb = (*rest[: max(y.ndim - 2, 0)], la[-1], *rest[max(y.ndim - 2, 0) :])
    return _contract("dot", a, b, la, lb, (*la[:-1], *rest), preferred_element_type)


@public(static=("precision", "preferred_element_type"))
def vdot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    """The sum of conj(a) * b over all elements, laid out flat."""
    x, y = lift(a), lift(b)
    flat = [Tracer(build.reshape(t.node, (t.size,)), t.weak) for t in (x, y)]
    return _contract("vdot", *flat, (0,), (0,), (), preferred_element_type, conjugate=True)


@public(static=("precision", "preferred_element_type"))
def inner(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    """The sum of products over the last axes of both."""
    x, y = lift(a), lift(b)
    if not x.ndim or not y.ndim:
        return dot(a, b, preferred_element_type=preferred_element_type)
    la = tuple(range(x.ndim))
    rest = tuple(range(100, 100 + y.ndim - 1))
    return _contract("inner", a, b, la, (*rest, la[-1]), (*la[:-1], *rest), preferred_element_type)


@public()
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """[n], [m] -> [n, m]: all products of elements, laid out flat."""
    no_out(out, "outer")
    (x, y), _, weak = promoted(a, b)
    n, m = x.size, y.size
    return Tracer(build.mul(build.expand(build.reshape(x, (n,)), [(1, m)]), build.expand(build.reshape(y, (m,)), [(0, n)])),
                  weak)  # fmt: skip


@public(static=("precision", "preferred_element_type"))
def matmul(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    """[.., n, k], [.., k, m] -> [.., n, m]: matrix products, the other axes broadcast. Vectors are rows or columns."""
    x, y = lift(a), lift(b)
    _need_axes("matmul", a=(x, 1), b=(y, 1))
    return _matmul("matmul", a, b, x.ndim, y.ndim, preferred_element_type)


def _matmul(name: str, a: ArrayLike, b: ArrayLike, n: int, m: int, preferred: DTypeLike) -> Array:
    rank = max(n, m) - 2
    batch = tuple(range(rank))
    row, k, column = 100, 101, 102
    la = (k,) if n == 1 else (*batch[rank - (n - 2) :], row, k)
    lb = (k,) if m == 1 else (*batch[rank - (m - 2) :], k, column)
    out = (*batch[: max(rank, 0)], *([row] if n > 1 else []), *([column] if m > 1 else []))
    return _contract(name, a, b, la, lb, out, preferred)


@public(static=("axis", "precision", "preferred_element_type"))
def vecdot(
    x1: ArrayLike, x2: ArrayLike, *, axis: int = -1, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The sum of conj(x1) * x2 over `axis`; the other axes broadcast."""
    x, y = lift(x1), lift(x2)
    _need_axes("vecdot", x1=(x, 1), x2=(y, 1))
    moved = []
    for t in (x, y):
        i = axis_of(axis, t.ndim, "vecdot")
        moved.append(Tracer(build.permute(t.node, [*[k for k in range(t.ndim) if k != i], i]), t.weak))
    rank = max(x.ndim, y.ndim) - 1
    batch, k = tuple(range(rank)), 100
    la, lb = ((*batch[rank - (t.ndim - 1) :], k) for t in (x, y))
    return _contract("vecdot", *moved, la, lb, batch, preferred_element_type, conjugate=True)


@public()
def matvec(x1: ArrayLike, x2: ArrayLike) -> Array:
    """[.., n, k], [.., k] -> [.., n]: matrices times vectors."""
    x, y = lift(x1), lift(x2)
    _need_axes("matvec", x1=(x, 2), x2=(y, 1))
    rank = max(x.ndim - 2, y.ndim - 1)
    batch = tuple(range(rank))
    return _contract("matvec", x1, x2, (*batch[rank - (x.ndim - 2) :], 100, 101), (*batch[rank - (y.ndim - 1) :], 101),
                     (*batch, 100), None)  # fmt: skip


@public()
def vecmat(x1: ArrayLike, x2: ArrayLike) -> Array:
    """[.., n], [.., n, k] -> [.., k]: (conjugated) vectors times matrices."""
    x, y = lift(x1), lift(x2)
    _need_axes("vecmat", x1=(x, 1), x2=(y, 2))
    rank = max(x.ndim - 1, y.ndim - 2)
    batch = tuple(range(rank))
    return _contract("vecmat", x1, x2, (*batch[rank - (x.ndim - 1) :], 100), (*batch[rank - (y.ndim - 2) :], 100, 101),
                     (*batch, 101), None, conjugate=True)  # fmt: skip


@public(static=("axes", "precision", "preferred_element_type"))
def tensordot(
    a: ArrayLike, b: ArrayLike, axes: Any = 2, *, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The sum of products over pairs of axes.

    axes   n: the last n of a with the first n of b; (of a, of b): an axis or a list of axes of each
    """
    x, y = lift(a), lift(b)
    if isinstance(axes, list | tuple | np.ndarray):
        of_a, of_b = [list(v) if isinstance(v, list | tuple) else [v] for v in axes]
        of_a = [axis_of(i, x.ndim, "tensordot") for i in of_a]
        of_b = [axis_of(i, y.ndim, "tensordot") for i in of_b]
    else:
        n = int(axes)
        if n > min(x.ndim, y.ndim):
            raise note_user_line(ShapeError(f"tensordot: axes={n}, but the shapes are {x.shape} and {y.shape}"))
        of_a, of_b = list(range(x.ndim - n, x.ndim)), list(range(n))
    if len(of_a) != len(of_b):
        raise note_user_line(ArgumentError(f"tensordot: {len(of_a)} axes of a, but {len(of_b)} of b"))
    la = tuple(range(x.ndim))
    lb = tuple([of_a[of_b.index(i)] if i in of_b else 100 + i for i in range(y.ndim)])
    out = (*[i for i in la if i not in of_a], *[i for i in lb if i >= 100])
    return _contract("tensordot", a, b, la, lb, out, preferred_element_type)


# ---- einsum
class _Spec:
    """Parsed subscripts: labels for every operand and the output; characters by label for messages."""

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
                raise note_user_line(ArgumentError(f"einsum: {term!r} in {subscripts!r} is no term of letters and '...'"))
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
                    ArgumentError(f"einsum: output {right!r} of {subscripts!r} repeats a letter or has one that no operand has")
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
        return "".join("..." if i is Ellipsis else string.ascii_letters[i] for i in axes)

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
    subscripts: Any, *operands: ArrayLike, out: None = None, optimize: Any = True, precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:  # fmt: skip
    """Sums of products by Einstein's convention.

    subscripts   "ij,jk->ik"; "..." stands for axes that broadcast; without "->" letters that occur once remain, sorted
    optimize     a path as einsum_path gives, or False for left to right; else pairs are chosen greedily

    >>> einsum("ij,j", array([[1., 2.], [3., 4.]]), array([1., 1.]))
    Array([3., 7.], dtype=float32)
    """
    no_out(out, "einsum")
    if not isinstance(subscripts, str):
        subscripts, operands = _interleaved((subscripts, *operands))[0], tuple(_interleaved((subscripts, *operands))[1])
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
    """(path, description): which operands einsum combines at each step."""
    if not isinstance(subscripts, str):
        subscripts, operands = _interleaved((subscripts, *operands))[0], tuple(_interleaved((subscripts, *operands))[1])
    shapes = [x.shape if isinstance(x, Array) else np.shape(x) for x in operands]
    spec = _Spec(subscripts, [len(s) for s in shapes])
    sizes: dict[int, int] = {}
    for own, shape in zip(spec.labels, shapes, strict=True):
        for a, n in zip(own, shape, strict=True):
            sizes[a] = max(sizes.get(a, 1), n)
    path = _path_of(optimize, len(shapes)) or greedy_path(spec.labels, spec.out, sizes) or [(0,)]
    text = f"{subscripts}: " + ", ".join(map(str, path))
    return ["einsum_path", *path], text


# ---- small products
@public()
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: every element of `a` times the whole of `b`."""
    (x, y), _, weak = promoted(a, b)
    rank = max(x.ndim, y.ndim)
    x, y = (build.reshape(v, (1,) * (rank - v.ndim) + v.shape) for v in (x, y))
    wide_x = build.expand(x, [(2 * i + 1, n) for i, n in enumerate(y.shape)])
    wide_y = build.expand(y, [(2 * i, n) for i, n in enumerate(x.shape)])
    shape = tuple([n * m for n, m in zip(x.shape, y.shape, strict=True)])
    return Tracer(build.reshape(build.mul(wide_x, wide_y), shape), weak)


@public(static=("axisa", "axisb", "axisc", "axis"))
def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """The cross product of vectors of 3 (or 2) elements along an axis; of two 2-vectors the third component."""
    if axis is not None:
        axisa = axisb = axisc = axis
    (x, y), _, weak = promoted(a, b)
    parts = []
    for v, i in ((x, axisa), (y, axisb)):
        at = axis_of(i, v.ndim, "cross")
        n = v.shape[at]
        if n not in (2, 3):
            raise note_user_line(ShapeError(f"cross: vectors need 2 or 3 elements along axis {at}, got shape {v.shape}"))
        gone = (*v.shape[:at], *v.shape[at + 1 :])
        parts.append([build.reshape(build.slice_axis(v, at, k, k + 1), gone) for k in range(n)])
    flat = broadcast("cross", *parts[0], *parts[1])
    p, q = flat[: len(parts[0])], flat[len(parts[0]) :]

    def minor(i: int, j: int) -> UOp:
        return build.sub(build.mul(p[i], q[j]), build.mul(p[j], q[i]))

    if len(p) == len(q) == 2:
        return Tracer(minor(0, 1), weak)
    zero = build.zeros_like(p[0])
    p, q = (v if len(v) == 3 else [*v, zero] for v in (p, q))
    out = [minor(1, 2), minor(2, 0), minor(0, 1)]
    at = axis_of(axisc, out[0].ndim + 1, "cross")
    shape = out[0].shape
    return Tracer(joined([build.reshape(v, (*shape[:at], 1, *shape[at:])) for v in out], at, "cross"), weak)


@public(static=("N", "increasing"))
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """[n] -> [n, N]: the powers N-1 .. 0 of every element (0 .. N-1 if increasing)."""
    t = lift(x)
    if t.ndim != 1:
        raise note_user_line(ShapeError(f"vander takes a vector, got shape {t.shape}"))
    n = t.shape[0]
    columns = n if N is None else N
    if columns < 0:
        raise note_user_line(ValueError(f"vander: N must not be negative, got {columns}"))
    kind = t.node.dtype if t.node.dtype is not dt.bool_ else dt.int64
    node = build.cast(t.node, kind)
    if columns < 2:
        return Tracer(build.const(1, kind, (n, columns)))
    ones = build.const(1, kind, (n, 1))
    powers = prefix(build.concatenate([ones, build.expand(node, [(1, columns - 1)])], 1), 1, Op.MUL)
    return Tracer(powers if increasing else build.flip(powers, (1,)))


# ---- convolution
def _slide(x: UOp, v: UOp, mode: str, name: str) -> UOp:
    """sum_k x[i + k] v[k] for the positions that `mode` keeps; len(v) <= len(x)."""
    n, m = x.shape[0], v.shape[0]
    if mode == "full":
        low, high = m - 1, m - 1
    elif mode == "same":
        low, high = m // 2, (m - 1) // 2
        low, high = (m - 1) - (m - 1) // 2, (m - 1) // 2
    elif mode == "valid":
        low = high = 0
    else:
        raise ValueError(f'{name}: mode must be "full", "same" or "valid", got {mode!r}')
    wide = build.window(build.pad(x, [(low, high, 0)]), 0, m)
    return build.reduce_(build.mul(wide, build.expand(v, [(0, wide.shape[0])])), (1,))


def _vectors(name: str, a: ArrayLike, v: ArrayLike, preferred: DTypeLike) -> tuple[UOp, UOp, dt.DType, bool]:
    (x, y), dtype, weak = promoted(a, v)
    if x.ndim != 1 or y.ndim != 1 or not x.size or not y.size:
        raise note_user_line(ShapeError(f"{name} takes two vectors with elements, got shapes {x.shape} and {y.shape}"))
    wide, kind = product_dtypes(dtype, preferred)
    return build.cast(x, wide), build.cast(y, wide), kind, weak


@public(static=("mode", "precision", "preferred_element_type"))
def convolve(
    a: ArrayLike, v: ArrayLike, mode: str = "full", *, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """out[i] = sum_k a[i - k] v[k] of two vectors.

    mode   "full": wherever they overlap; "same": as long as the longer one; "valid": where they overlap entirely
    """
    x, y, kind, weak = _vectors("convolve", a, v, preferred_element_type)
    if y.size > x.size:
        x, y = y, x
    return Tracer(build.cast(_slide(x, build.flip(y, (0,)), mode, "convolve"), kind), weak)


@public(static=("mode", "precision", "preferred_element_type"))
def correlate(
    a: ArrayLike, v: ArrayLike, mode: str = "valid", *, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """out[i] = sum_k a[i + k] conj(v[k]) of two vectors; modes as in `convolve`."""
    x, y, kind, weak = _vectors("correlate", a, v, preferred_element_type)
    y = _conjugate(y)
    if y.size > x.size:  # slide the shorter one the other way
        out = build.flip(_slide(y, x, mode, "correlate"), (0,))
    else:
        out = _slide(x, y, mode, "correlate")
    return Tracer(build.cast(out, kind), weak)


# ---- differences and integrals
def _difference(x: UOp, axis: int) -> UOp:
    n = x.shape[axis]
    high, low = build.slice_axis(x, axis, 1, max(n, 1)), build.slice_axis(x, axis, 0, max(n - 1, 0))
    return build.xor(high, low) if x.dtype is dt.bool_ else build.sub(high, low)


@public(static=("n", "axis"))
def diff(
    a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None, append: ArrayLike | None = None
) -> Array:
    """The n-th difference of neighbours along `axis`; of bools: whether they differ."""
    if n < 0:
        raise note_user_line(ValueError(f"diff: n must not be negative, got {n}"))
    given = [v for v in (prepend, a, append) if v is not None]
    nodes, _, weak = promoted(*given)
    x = nodes[0 if prepend is None else 1]
    if not x.ndim:
        raise note_user_line(ShapeError("diff needs at least one axis, got a 0-d array"))
    i = axis_of(axis, x.ndim, "diff")
    if n == 0:
        return Tracer(x, weak)
    if len(nodes) > 1:
        ones = (*x.shape[:i], 1, *x.shape[i + 1 :])
        nodes = [build.broadcast_to(v, ones) if v.ndim == 0 else v for v in nodes]
        x = joined(nodes, i, "diff")
    for _ in range(n):
        x = _difference(x, i)
    return Tracer(x, weak)


@public()
def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """The differences of neighbours of the array laid out flat, with something before and after."""
    t = lift(ary)
    flat = build.reshape(t.node, (t.size,))
    parts = [_difference(flat, 0)]
    if to_begin is not None:
        parts.insert(0, build.cast(lift(to_begin).node, flat.dtype))
    if to_end is not None:
        parts.append(build.cast(lift(to_end).node, flat.dtype))
    return Tracer(build.concatenate([build.reshape(p, (p.size,)) for p in parts], 0), t.weak)


@public(static=("axis",))
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """The integral along `axis` by the trapezoid rule, over points `x` or at distance `dx`."""
    given = [y, dx if x is None else x]
    (f, h), _, weak = promoted(*given, least=dt.default_float())
    i = axis_of(axis, f.ndim, "trapezoid")
    n = f.shape[i]
    if x is not None:
        if h.ndim == 1:
            h = build.reshape(_difference(h, 0), tuple([max(n - 1, 0) if k == i else 1 for k in range(f.ndim)]))
        else:
            h = _difference(h, axis_of(axis, h.ndim, "trapezoid"))
    high, low = build.slice_axis(f, i, 1, max(n, 1)), build.slice_axis(f, i, 0, max(n - 1, 0))
    area = build.mul(*broadcast("trapezoid", build.mul(build.add(high, low), 0.5), h))
    return Tracer(build.reduce_(area, (axis_of(axis, area.ndim, "trapezoid"),)), weak)


def _slope(f: UOp, h: UOp, i: int, edge_order: int) -> UOp:
    """Second-order differences along axis i at points with distances h (a vector of n-1, or a scalar)."""
    n = f.shape[i]

    def at(start: int, stop: int) -> UOp:
        return build.slice_axis(f, i, start, stop)

    def step(start: int, stop: int) -> UOp:
        part = h if not h.ndim else build.slice_axis(h, 0, start, stop)
        shape = tuple([part.size if k == i and h.ndim else 1 for k in range(f.ndim)])
        return build.broadcast_to(build.reshape(part, shape), at(start, stop).shape)

    parts = []
    first, last = build.div(build.sub(at(1, 2), at(0, 1)), step(0, 1)), build.div(
        build.sub(at(n - 1, n), at(n - 2, n - 1)), step(n - 2, n - 1))  # fmt: skip
    if n > 2:
        p, q = step(0, n - 2), step(1, n - 1)
        if not h.ndim:
            middle = build.div(build.sub(at(2, n), at(0, n - 2)), build.mul(p, 2))
        else:
            total = build.add(p, q)
            middle = build.add(
                build.mul(build.div(build.sub(at(2, n), at(1, n - 1)), q), build.div(p, total)),
                build.mul(build.div(build.sub(at(1, n - 1), at(0, n - 2)), p), build.div(q, total)),
            )
        if edge_order == 2:  # extrapolate the slope linearly from the first two intervals
            for k in (0, 1):
                a, b = (step(0, 1), step(1, 2)) if k == 0 else (step(n - 2, n - 1), step(n - 3, n - 2))
                near, far = (at(1, 2), at(0, 1)), (at(2, 3), at(1, 2))
                if k:
                    near, far = (at(n - 1, n), at(n - 2, n - 1)), (at(n - 2, n - 1), at(n - 3, n - 2))
                s, t = build.div(build.sub(*near), a), build.div(build.sub(*far), b)
                edge = build.add(s, build.mul(build.div(build.sub(s, t), build.add(a, b)), a))
                first, last = (edge, last) if k == 0 else (first, edge)
        parts = [first, middle, last]
    else:
        parts = [first, last]
    return build.concatenate(parts, i)


@public(static=("axis", "edge_order"))
def gradient(f: ArrayLike, *varargs: ArrayLike, axis: Any = None, edge_order: int = 1) -> Any:
    """The slope along every axis (a list), or along the axes named; central differences inside.

    varargs      the distance of the points, or their coordinates, one for all axes or one for each
    edge_order   order of the differences at the ends, 1 or 2
    """
    (x,), dtype, weak = promoted(f, least=dt.default_float())
    if axis is None:
        axes: Sequence[int] = range(x.ndim)
    else:
        axes = [axis_of(i, x.ndim, "gradient") for i in (axis if isinstance(axis, list | tuple) else (axis,))]
    steps: list[Any] = list(varargs) or [1.0]
    if len(steps) not in (1, len(axes)):
        raise note_user_line(ArgumentError(f"gradient: {len(steps)} spacings for {len(axes)} axes"))
    steps = steps * (len(axes) // len(steps))
    out = []
    for i, h in zip(axes, steps, strict=True):
        if x.shape[i] < edge_order + 1:
            raise note_user_line(
                ShapeError(f"gradient: axis {i} of shape {x.shape} needs at least {edge_order + 1} elements")
            )
        given = build.cast(lift(h).node, dtype)
        node = _difference(given, 0) if given.ndim else given
        out.append(Tracer(_slope(x, node, i, edge_order), weak))
    return out[0] if len(out) == 1 and (axis is not None and not isinstance(axis, list | tuple) or x.ndim == 1) else out


