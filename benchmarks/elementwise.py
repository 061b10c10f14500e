"""Elementwise chains, reductions and rows: what is bounded by memory."""

import numpy as np

from benchmarks.work import Library, Run, Work, numbers

BIG = 16 << 20
SIDE = 4096
MATRIX_BYTES = 4 * SIDE * SIDE


def vector(n: int = BIG) -> np.ndarray:
    return numbers(n)


def affine(lib: Library) -> Run:
    f = lib.jit(lambda x: x * 2 + 1)
    x = lib.array(vector())
    return lambda: f(x)


def affine_torch() -> Run:
    import torch

    x = torch.from_numpy(vector())
    return lambda: x * 2 + 1


def affine_numpy() -> Run:
    x = vector()
    return lambda: x * 2 + 1


def smooth(lib: Library) -> Run:
    f = lib.jit(lambda x: lib.np.tanh(x) * 2 + lib.np.exp(-x * x))
    x = lib.array(vector())
    return lambda: f(x)


def smooth_torch() -> Run:
    import torch

    x = torch.from_numpy(vector())
    return lambda: torch.tanh(x) * 2 + torch.exp(-x * x)


def smooth_numpy() -> Run:
    x = vector()
    return lambda: np.tanh(x) * 2 + np.exp(-x * x)


def total(axis: int | None) -> Work:
    """Sum 16M numbers over all axes, over the rows or over the columns."""

    def build(lib: Library) -> Run:
        f = lib.jit(lambda x: lib.np.sum(x, axis=axis))
        x = lib.array(numbers(SIDE, SIDE))
        return lambda: f(x)

    def torch_run() -> Run:
        import torch

        x = torch.from_numpy(numbers(SIDE, SIDE))
        return (lambda: torch.sum(x)) if axis is None else (lambda: torch.sum(x, dim=axis))

    def numpy_run() -> Run:
        x = numbers(SIDE, SIDE)
        return lambda: np.sum(x, axis=axis)

    name = "all" if axis is None else f"axis {axis}"
    target = {None: 1.0, 0: 0.7, 1: 1.0}[axis]
    return Work(f"sum of {name}, 16M", target, build, torch_run, numpy_run, moved=MATRIX_BYTES)


def softmax(lib: Library) -> Run:
    f = lib.jit(lambda x: lib.nn.softmax(x, axis=-1))
    x = lib.array(numbers(SIDE, SIDE))
    return lambda: f(x)


def softmax_torch() -> Run:
    import torch

    x = torch.from_numpy(numbers(SIDE, SIDE))
    return lambda: torch.softmax(x, dim=-1)


def softmax_numpy() -> Run:
    x = numbers(SIDE, SIDE)

    def run() -> object:
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    return run


def layer_norm(lib: Library) -> Run:
    def f(x, scale, shift):
        mean = lib.np.mean(x, axis=-1, keepdims=True)
        variance = lib.np.var(x, axis=-1, keepdims=True)
        return (x - mean) / lib.np.sqrt(variance + 1e-5) * scale + shift

    compiled = lib.jit(f)
    args = [
        lib.array(a) for a in (numbers(SIDE, SIDE), numbers(SIDE, seed=1), numbers(SIDE, seed=2))
    ]
    return lambda: compiled(*args)


def layer_norm_torch() -> Run:
    import torch

    x, scale, shift = map(
        torch.from_numpy, (numbers(SIDE, SIDE), numbers(SIDE, seed=1), numbers(SIDE, seed=2))
    )
    return lambda: torch.nn.functional.layer_norm(x, (SIDE,), scale, shift)


WORK = (
    Work("x*2+1, 16M", 0.25, affine, affine_torch, affine_numpy, moved=8 * BIG),
    Work("tanh(x)*2+exp(-x*x), 16M", 0.4, smooth, smooth_torch, smooth_numpy, moved=8 * BIG),
    total(None),
    total(0),
    total(1),
    Work("softmax 4096x4096", 0.25, softmax, softmax_torch, softmax_numpy, moved=2 * MATRIX_BYTES),
    Work("layer norm 4096x4096", 0.2, layer_norm, layer_norm_torch, moved=2 * MATRIX_BYTES),
)
