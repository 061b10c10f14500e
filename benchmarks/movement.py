"""Work that moves numbers: transposes, running sums, indexing, sorting, random bits."""

import numpy as np

from benchmarks.work import Library, Run, Work, numbers

SIDE = 4096
MATRIX_BYTES = 4 * SIDE * SIDE


def rows() -> np.ndarray:
    """Row numbers, some repeated and some absent."""
    return np.random.default_rng(1).integers(0, SIDE, SIDE).astype(np.int32)


def transpose(lib: Library) -> Run:
    f = lib.jit(lambda x: x.T)  # a result of jit has storage of its own: this copies
    x = lib.array(numbers(SIDE, SIDE))
    return lambda: f(x)


def transpose_torch() -> Run:
    import torch

    x = torch.from_numpy(numbers(SIDE, SIDE))
    return lambda: x.T.contiguous()


def transpose_numpy() -> Run:
    x = numbers(SIDE, SIDE)
    return lambda: np.ascontiguousarray(x.T)


def cumsum(lib: Library) -> Run:
    f = lib.jit(lambda x: lib.np.cumsum(x, axis=1))
    x = lib.array(numbers(SIDE, SIDE))
    return lambda: f(x)


def cumsum_torch() -> Run:
    import torch

    x = torch.from_numpy(numbers(SIDE, SIDE))
    return lambda: torch.cumsum(x, dim=1)


def cumsum_numpy() -> Run:
    x = numbers(SIDE, SIDE)
    return lambda: np.cumsum(x, axis=1)


def gather(lib: Library) -> Run:
    f = lib.jit(lambda x, i: x[i])
    x, i = lib.array(numbers(SIDE, SIDE)), lib.array(rows())
    return lambda: f(x, i)


def gather_torch() -> Run:
    import torch

    x, i = torch.from_numpy(numbers(SIDE, SIDE)), torch.from_numpy(rows())
    return lambda: torch.index_select(x, 0, i)


def gather_numpy() -> Run:
    x, i = numbers(SIDE, SIDE), rows()
    return lambda: np.take(x, i, axis=0)


def scatter_add(lib: Library) -> Run:
    f = lib.jit(lambda x, i, v: x.at[i].add(v))
    x, i, v = (
        lib.array(numbers(SIDE, SIDE)),
        lib.array(rows()),
        lib.array(numbers(SIDE, SIDE, seed=2)),
    )
    return lambda: f(x, i, v)


def scatter_add_torch() -> Run:
    import torch

    x, v = torch.from_numpy(numbers(SIDE, SIDE)), torch.from_numpy(numbers(SIDE, SIDE, seed=2))
    i = torch.from_numpy(rows())
    return lambda: torch.index_add(x, 0, i, v)


def sort(lib: Library) -> Run:
    f = lib.jit(lambda x: lib.np.sort(x))
    x = lib.array(numbers(1 << 20))
    return lambda: f(x)


def sort_torch() -> Run:
    import torch

    x = torch.from_numpy(numbers(1 << 20))
    return lambda: torch.sort(x).values


def sort_numpy() -> Run:
    x = numbers(1 << 20)
    return lambda: np.sort(x)


def normal(lib: Library) -> Run:
    f = lib.jit(lambda key: lib.random.normal(key, (1 << 20,)))
    key = lib.random.key(0)
    return lambda: f(key)


def normal_torch() -> Run:
    import torch

    return lambda: torch.randn(1 << 20)


def normal_numpy() -> Run:
    generator = np.random.default_rng(0)
    return lambda: generator.standard_normal(1 << 20, dtype=np.float32)


WORK = (
    Work(
        "transpose 4096x4096",
        0.6,
        transpose,
        transpose_torch,
        transpose_numpy,
        moved=2 * MATRIX_BYTES,
    ),
    Work("cumsum axis 1, 16M", 0.7, cumsum, cumsum_torch, cumsum_numpy, moved=2 * MATRIX_BYTES),
    Work("gather rows 4096x4096", 0.6, gather, gather_torch, gather_numpy, moved=2 * MATRIX_BYTES),
    Work("scatter-add rows 4096x4096", 0.7, scatter_add, scatter_add_torch, moved=3 * MATRIX_BYTES),
    Work("sort 1M f32", 0.2, sort, sort_torch, sort_numpy),
    Work("random normal 1M", 0.5, normal, normal_torch, normal_numpy),
)
