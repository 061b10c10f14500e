"""Collectives: what the members of a named axis (`vmap(f, axis_name="i")`) say to each other.

All take pytrees; `axis_name` is the name of an open axis, or a tuple of names, which are combined
one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgrad.errors import VmapAxisError, note_user_line
from fgrad.trace import collective, tree
from fgrad.trace.arraylike import Array
from fgrad.trace.stage import named_axis_size
from fgrad.trace.tracer import Tracer, is_scalar, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp

AxisName = Any


def axis_size(axis_name: AxisName) -> int:
    """How many members the named axis has (a Python int). Raises VmapAxisError when no vmap binds the name.

    >>> vmap(lambda v: v * lax.axis_size("i"), axis_name="i")(fnp.array([1, 2]))
    Array([2, 4], dtype=int64)
    """
    if isinstance(axis_name, tuple):
        n = 1
        for name in axis_name:
            n *= axis_size(name)
        return n
    size = named_axis_size(axis_name)
    if size is None:
        raise note_user_line(
            VmapAxisError(f"no axis is called {axis_name!r} here; name it with vmap(f, axis_name={axis_name!r})")
        )
    return size


def _names(axis_name: AxisName) -> tuple[Any, ...]:
    names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    for name in names:
        axis_size(name)
    return names


def _no_groups(groups: Any, name: str) -> None:
    if groups is not None:
        raise NotImplementedError(f"{name} with axis_index_groups; use two named axes (two vmaps) instead")


def _combine(kind: str, x: Any, axis_name: AxisName) -> Any:
    names = _names(axis_name)

    def leaf(value: Any) -> Any:
        t = lift(value)
        node = t.node
        if node.dtype is dt.bool_ and kind in ("psum", "pmean"):
            node = build.cast(node, dt.int64)
        if kind == "pmean" and not node.dtype.is_inexact:
            node = build.cast(node, dt.default_float())
        for name in names:
            node = collective.combine(node, kind, name)
        return Tracer(node, t.weak)

    return tree.map_(leaf, x)


def psum(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The sum over all members; every member gets it. Of a Python number: the number times the size, at once.

    >>> vmap(lambda v: v / lax.psum(v, "i"), axis_name="i")(fnp.array([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float32)
    """
    _no_groups(axis_index_groups, "psum")
    if is_scalar(x):
        return x * axis_size(axis_name)
    return _combine("psum", x, axis_name)


def pmean(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The mean over all members; every member gets it.

    Of a pytree: of every leaf.

    >>> vmap(lambda v: v - lax.pmean(v, "i"), axis_name="i")(fnp.array([1.0, 3.0]))
    Array([-1.,  1.], dtype=float32)
    """
    _no_groups(axis_index_groups, "pmean")
    return _combine("pmean", x, axis_name)


def pmax(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The maximum over all members; every member gets it.

    Of a pytree: of every leaf.

    >>> vmap(lambda v: lax.pmax(v, "i"), axis_name="i")(fnp.array([1, 3, 2]))
    Array([3, 3, 3], dtype=int64)
    """
    _no_groups(axis_index_groups, "pmax")
    return _combine("pmax", x, axis_name)


def pmin(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The minimum over all members; every member gets it.

    Of a pytree: of every leaf.

    >>> vmap(lambda v: lax.pmin(v, "i"), axis_name="i")(fnp.array([1, 3, 2]))
    Array([1, 1, 1], dtype=int64)
    """
    _no_groups(axis_index_groups, "pmin")
    return _combine("pmin", x, axis_name)


def axis_index(axis_name: AxisName) -> Array:
    """The number of the member along the named axis; along several, counted row by row. An int64 scalar.

    Raises VmapAxisError when no vmap binds the name.

    >>> vmap(lambda v: 10 * v + lax.axis_index("i"), axis_name="i")(fnp.array([1, 2]))
    Array([10, 21], dtype=int64)
    """
    out: UOp | None = None
    for name in _names(axis_name):
        here = collective.axis_index(name)
        out = here if out is None else build.add(build.mul(out, axis_size(name)), here)
    assert out is not None
    return Tracer(out)


def all_gather(
    x: Any,
    axis_name: AxisName,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
) -> Any:
    """The values of all members, stacked on a new `axis` (with `tiled`: joined along the existing one).

    -> a new axis of the named axis' size. Raises VmapAxisError when no vmap binds the name.

    >>> vmap(lambda v: lax.all_gather(v, "i"), axis_name="i")(fnp.array([1, 2]))
    Array([[1, 2],
           [1, 2]], dtype=int64)
    """
    _no_groups(axis_index_groups, "all_gather")
    names = _names(axis_name)

    def leaf(value: Any) -> Any:
        t = lift(value)
        node = t.node
        for name in reversed(names):
            node = collective.all_gather(node, name, axis_size(name))
        node = build.reshape(node, (axis_size(names), *t.shape))
        ndim = t.ndim if tiled else t.ndim + 1
        at = axis % ndim if -ndim <= axis < ndim else None
        if at is None:
            raise note_user_line(VmapAxisError(f"all_gather of shape {t.shape} got axis={axis}"))
        order = list(range(1, node.ndim))
        order.insert(at, 0)
        node = build.permute(node, order)
        if tiled:
            merged = node.shape[at] * node.shape[at + 1]
            node = build.reshape(node, (*node.shape[:at], merged, *node.shape[at + 2 :]))
        return Tracer(node, t.weak)

    return tree.map_(leaf, x)


def ppermute(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values along (from, to) pairs of members; a member that nobody sends to gets zeros.

    Members along several named axes are counted row by row.

    >>> vmap(lambda v: lax.ppermute(v, "i", [(0, 1), (1, 2)]), axis_name="i")(fnp.array([1, 2, 3]))
    Array([0, 1, 2], dtype=int64)
    """
    names = _names(axis_name)
    pairs = [(int(a), int(b)) for a, b in perm]

    def leaf(value: Any) -> Any:
        t = lift(value)
        if len(names) == 1:
            return Tracer(collective.ppermute(t.node, names[0], pairs), t.weak)
        # the members in a row of their own, each with all values: it keeps what it is sent
        n = axis_size(names)
        node = t.node
        for name in reversed(names):
            node = collective.all_gather(node, name, axis_size(name))
        node = build.reshape(node, (n, *t.shape))
        moved = collective.send(node, pairs)
        box = [(None, 1, 1), *[(0, m, 1) for m in t.shape]]
        return Tracer(build.reshape(build.shrink(moved, box, [axis_index(names).as_node()]), t.shape), t.weak)

    return tree.map_(leaf, x)


def pshuffle(x: Any, axis_name: AxisName, perm: Sequence[int]) -> Any:
    """Member i gets the value of member perm[i].

    >>> vmap(lambda v: lax.pshuffle(v, "i", [2, 0, 1]), axis_name="i")(fnp.array([1, 2, 3]))
    Array([3, 1, 2], dtype=int64)
    """
    if sorted(perm) != list(range(axis_size(axis_name))):
        raise note_user_line(VmapAxisError(f"pshuffle needs a permutation of the members, got {list(perm)}"))
    return ppermute(x, axis_name, [(int(source), i) for i, source in enumerate(perm)])


def all_to_all(
    x: Any,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Cut along `split_axis`, send piece j to member j, and stack what arrives along `concat_axis`.

    Without `tiled` the split axis has one element for each member and disappears. Members along several named axes are
    counted row by row.

    >>> vmap(lambda v: lax.all_to_all(v, "i", 0, 0), axis_name="i")(fnp.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int64)
    """
    _no_groups(axis_index_groups, "all_to_all")
    names = _names(axis_name)
    sizes = [axis_size(name) for name in names]
    n = axis_size(names)

    def exchanged(node: UOp, at: int) -> UOp:
        """Element i along `at` at member i, at the number of its sender."""
        shape = node.shape
        node = build.reshape(node, (*shape[:at], *sizes, *shape[at + 1 :]))
        for i, name in enumerate(names):
            node = collective.all_to_all(node, name, at + i)
        return build.reshape(node, shape)

    def leaf(value: Any) -> Any:
        t = lift(value)
        node = t.node
        at, to = split_axis % node.ndim, concat_axis % node.ndim
        if node.shape[at] % n or (not tiled and node.shape[at] != n):
            raise note_user_line(
                VmapAxisError(f"all_to_all over {n} members cannot split axis {at} of shape {node.shape}")
            )
        if not tiled:
            return Tracer(_moved(exchanged(node, at), at, to), t.weak)
        node = build.reshape(node, (*node.shape[:at], n, node.shape[at] // n, *node.shape[at + 1 :]))
        got = _moved(exchanged(node, at), at, to)  # [.., n, m at `to`, ..]
        merged = got.shape[to] * got.shape[to + 1]
        return Tracer(build.reshape(got, (*got.shape[:to], merged, *got.shape[to + 2 :])), t.weak)

    return tree.map_(leaf, x)


def _moved(x: UOp, source: int, destination: int) -> UOp:
    order = [i for i in range(x.ndim) if i != source]
    order.insert(destination, source)
    return build.permute(x, order)


def pswapaxes(x: Any, axis_name: AxisName, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Exchange the named axis with `axis` of the value.

    >>> vmap(lambda v: lax.pswapaxes(v, "i", 0), axis_name="i")(fnp.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int64)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def psum_scatter(
    x: Any,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """The sum over all members, of which member j keeps piece j along `scatter_dimension`.

    >>> vmap(lambda v: lax.psum_scatter(v, "i"), axis_name="i")(fnp.array([[1, 2], [3, 4]]))
    Array([4, 6], dtype=int64)
    """
    _no_groups(axis_index_groups, "psum_scatter")
    names = _names(axis_name)
    n = axis_size(names)

    def leaf(value: Any) -> Any:
        t = lift(value)
        at = scatter_dimension % t.ndim
        total = t.node
        for name in names:
            total = collective.combine(total, "psum", name)
        size = total.shape[at] // n
        if total.shape[at] % n or (not tiled and size != 1):
            raise note_user_line(
                VmapAxisError(f"psum_scatter over {n} members cannot split axis {at} of shape {t.shape}")
            )
        box: list[tuple[int | None, int, int]] = [(0, m, 1) for m in total.shape]
        box[at] = (None, size, 1)
        part = build.shrink(total, box, [build.mul(axis_index(names).as_node(), size)])
        return Tracer(part if tiled else build.reshape(part, total.shape[:at] + total.shape[at + 1 :]), t.weak)

    return tree.map_(leaf, x)


__all__ = [
    "all_gather", "all_to_all", "axis_index", "axis_size", "pmax", "pmean", "pmin", "ppermute", "pshuffle",
    "psum", "psum_scatter", "pswapaxes",
]  # fmt: skip
