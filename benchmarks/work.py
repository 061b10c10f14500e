"""A piece of work to be timed, and the libraries that can do it."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

Run = Callable[[], object]  # does the work once and returns what must be waited for


class Library:
    """A library with JAX's module layout: fgrad, or JAX itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.root: ModuleType = importlib.import_module(name)
        self.np: ModuleType = importlib.import_module(f"{name}.numpy")
        self.random: ModuleType = importlib.import_module(f"{name}.random")
        self.lax: ModuleType = importlib.import_module(f"{name}.lax")
        self.nn: ModuleType = importlib.import_module(f"{name}.nn")

    def __getattr__(self, name: str) -> Any:
        """The library's own `jit`, `grad`, ..."""
        return getattr(self.root, name)

    def array(self, value: np.ndarray) -> Any:
        """A device array with the contents and dtype of `value`."""
        return self.np.asarray(value)

    def wait(self, result: object) -> None:
        """Return when every array in `result` has been computed."""
        self.root.block_until_ready(result)


@dataclass(frozen=True, slots=True)
class Work:
    """One row of the table.

    name     what is done, and on what sizes
    target   our time over the best peer's that we aim at; below 1 is ahead
    build    makes the run of a library with JAX's layout
    torch    makes PyTorch's run, where it has the operation
    numpy    makes NumPy's run, where it has the operation
    flops    floating-point operations of one run, for kernels whose speed is bounded by them
    moved    bytes that must be read and written in one run, for kernels bounded by memory
    """

    name: str
    target: float
    build: Callable[[Library], Run]
    torch: Callable[[], Run] | None = None
    numpy: Callable[[], Run] | None = None
    flops: float = 0.0
    moved: float = 0.0


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal float32 numbers, the same for every library."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
