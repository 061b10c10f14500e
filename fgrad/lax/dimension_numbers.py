"""Whether the dimension numbers of gather and scatter fit the shapes they are for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgrad.errors import DimensionNumbersError, note_user_line

Axes = Sequence[int]
Shape = tuple[int, ...]


def need(condition: Any, message: str) -> None:
    """Raise DimensionNumbersError unless the condition holds."""
    if not condition:
        raise note_user_line(DimensionNumbersError(message))


def _sorted(name: str, op: str, dims: Axes) -> None:
    need(list(dims) == sorted(dims), f"{name} in {op} op must be sorted; got {tuple(dims)}")


def _once(name: str, op: str, dims: Axes) -> None:
    need(len(set(dims)) == len(dims), f"{name} in {op} op must not repeat; got {tuple(dims)}")


def _in_range(name: str, op: str, dims: Axes, rank: int) -> None:
    need(
        all(0 <= d < rank for d in dims),
        f"Invalid {name} set in {op} op; valid range is [0, {rank}); got {tuple(dims)}",
    )


def _disjoint(first: str, second: str, op: str, a: Axes, b: Axes) -> None:
    need(not set(a) & set(b), f"{first} and {second} in {op} op must be disjoint; got {tuple(a)} and {tuple(b)}")


def _index_map(name: str, op: str, index_map: Axes, operand: Shape, indices: Shape) -> None:
    """Each component of an index is for an axis of its own."""
    last = len(indices) - 1
    need(
        len(indices) > 0 and len(index_map) == indices[last],
        f"{op.capitalize()} op has {len(index_map)} elements in {name} and the bound of dimension "
        f"index_vector_dim={last} of indices is {indices[last] if indices else 'missing'}. These two numbers must be "
        f"equal: the last axis of indices, of shape {indices}, holds the components",
    )
    for i, axis in enumerate(index_map):
        need(0 <= axis < len(operand), f"Invalid {name} mapping; domain is [0, {len(operand)}), got: {i}->{axis}")
    _once(name, op, index_map)


def _batching(
    op: str, names: tuple[str, str, str, str], operand: Shape, indices: Shape, hidden: Axes, index_map: Axes,
    batching: Axes, of_indices: Axes,
) -> None:  # fmt: skip
    """Axes of the operand that go together with axes of the indices."""
    hidden_name, map_name, name, indices_name = names
    _sorted(name, op, batching)
    _once(name, op, batching)
    _in_range(name, op, batching, len(operand))
    _disjoint(hidden_name, name, op, hidden, batching)
    _disjoint(map_name, name, op, index_map, batching)
    _once(indices_name, op, of_indices)
    _in_range(indices_name, op, of_indices, len(indices))
    title = op.capitalize()
    need(
        len(indices) - 1 not in of_indices,
        f"{title} op cannot have the index vector dimension as a batching dimension; got {tuple(of_indices)}",
    )
    need(
        len(batching) == len(of_indices),
        f"{title} op requires equal numbers of {name} and {indices_name}; got {tuple(batching)} and "
        f"{tuple(of_indices)}",
    )
    sizes = tuple([operand[i] for i in batching]), tuple([indices[i] for i in of_indices])
    need(
        sizes[0] == sizes[1],
        f"{title} op requires operand batching dimensions and indices batching dimensions to have the same shape; got "
        f"{sizes[0]} and {sizes[1]}",
    )


def check_gather(d: Any, operand: Shape, indices: Shape, sizes: Sequence[int]) -> None:
    """Raise DimensionNumbersError unless `d` fits an operand, indices and slice sizes of these shapes."""
    op, rank = "gather", len(operand)
    _sorted("offset_dims", op, d.offset_dims)
    _once("offset_dims", op, d.offset_dims)
    out_rank = len(d.offset_dims) + len(indices) - 1
    for i, dim in enumerate(d.offset_dims):
        need(
            0 <= dim < out_rank,
            f"Offset dimension {i} in gather op is out of bounds; got {dim}, but the result has {out_rank} axes",
        )
    _index_map("start_index_map", op, d.start_index_map, operand, indices)
    collapsed = "collapsed_slice_dims"
    _sorted(collapsed, op, d.collapsed_slice_dims)
    _in_range(collapsed, op, d.collapsed_slice_dims, rank)
    _once(collapsed, op, d.collapsed_slice_dims)
    names = (collapsed, "start_index_map", "operand_batching_dims", "start_indices_batching_dims")
    _batching(
        op, names, operand, indices, d.collapsed_slice_dims, d.start_index_map, d.operand_batching_dims,
        d.start_indices_batching_dims,
    )  # fmt: skip
    need(
        len(sizes) == rank,
        f"Gather op must have one slice size for every input dimension; got {tuple(sizes)} for shape {operand}",
    )
    need(
        len(d.offset_dims) == rank - len(d.collapsed_slice_dims) - len(d.operand_batching_dims),
        "All components of the offset index in a gather op must either be a offset dimension or explicitly "
        f"collapsed/batching; got {d} for an operand of {rank} axes",
    )
    for i, (size, n) in enumerate(zip(sizes, operand, strict=True)):
        need(
            0 <= size <= n,
            f"Slice size at index {i} in gather op is out of range, must be within [0, {n + 1}), got {size}.",
        )
    for i, axis in enumerate(d.collapsed_slice_dims):
        need(
            sizes[axis] == 1,
            f"Gather op can only collapse slice dims with bound 1, but bound is {sizes[axis]} for index {axis} at "
            f"position {i}.",
        )
    for i, axis in enumerate(d.operand_batching_dims):
        need(
            sizes[axis] <= 1,
            f"Gather op can only have operand batching dims with bound 0/1, but bound is {sizes[axis]} for index "
            f"{axis} at position {i}.",
        )


def check_scatter(d: Any, operand: Shape, indices: Shape, updates: Shape) -> None:
    """Raise DimensionNumbersError unless `d` fits an operand, indices and updates of these shapes."""
    op, rank = "scatter", len(operand)
    _sorted("update_window_dims", op, d.update_window_dims)
    _once("update_window_dims", op, d.update_window_dims)
    expected = len(indices) - 1 + len(d.update_window_dims)
    need(len(updates) == expected, f"Updates tensor must be of rank {expected}; got {len(updates)}.")
    _in_range("update_window_dims", op, d.update_window_dims, len(updates))
    _sorted("inserted_window_dims", op, d.inserted_window_dims)
    _once("inserted_window_dims", op, d.inserted_window_dims)
    _in_range("inserted_window_dims", op, d.inserted_window_dims, rank)
    names = (
        "inserted_window_dims", "scatter_dims_to_operand_dims", "operand_batching_dims", "scatter_indices_batching_dims"
    )  # fmt: skip
    _batching(
        op, names, operand, indices, d.inserted_window_dims, d.scatter_dims_to_operand_dims, d.operand_batching_dims,
        d.scatter_indices_batching_dims,
    )  # fmt: skip
    window = len(d.update_window_dims) + len(d.inserted_window_dims) + len(d.operand_batching_dims)
    need(window == rank, f"Scatter op has window of size {window}; doesn't match operand of rank {rank}.")
    _index_map("scatter_dims_to_operand_dims", op, d.scatter_dims_to_operand_dims, operand, indices)
    hidden = (*d.inserted_window_dims, *d.operand_batching_dims)
    bounds = tuple([n for i, n in enumerate(operand) if i not in hidden])
    sizes = tuple([updates[i] for i in d.update_window_dims])
    need(
        all(k <= n for k, n in zip(sizes, bounds, strict=True)),
        "Bounds of the window dimensions of updates must not exceed those of the corresponding dimensions of the "
        f"operand; got {sizes} for {bounds}",
    )
    rest = tuple([n for i, n in enumerate(updates) if i not in d.update_window_dims])
    need(
        rest == indices[:-1],
        "Bounds of the scatter dimensions of updates must be the same as those of the corresponding dimensions of the "
        f"indices; got {rest} for {indices[:-1]}",
    )
