"""What a declared length costs: ``python -m benchmarks.dynamic_sizes``.

Each work is a program compiled once for all lengths up to `BOUND`, timed at a few lengths beside the program that was
compiled for that one length. Printed are the shortest of many runs in microseconds, in brackets those of the latter.
``FGRAD_THREADS=1`` gives the figures of the guide.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import fgrad.numpy as fnp
from benchmarks.measure import interleave
from fgrad import Size, block_until_ready, grad, jit, lax, nn

BOUND = 1024
LENGTHS = (1024, 128, 16)
WIDTH = 256
HEADS = 4


def elementwise(x: Any) -> Any:
    """[n, 256] -> [n, 256]."""
    return fnp.exp(-x * x) * 2 + x


def layer(x: Any, w: Any) -> Any:
    """[n, 256], [256, 256] -> [n, 256]."""
    return fnp.tanh(x @ w)


def layer_gradient(x: Any, w: Any) -> Any:
    """The gradient of the sum of a layer with respect to w."""
    return grad(lambda w: fnp.sum(layer(x, w)))(w)


def attention(x: Any) -> Any:
    """Causal attention of [n, 256] to itself, with heads of 64."""
    n = x.shape[0]
    heads = x.reshape(n, HEADS, WIDTH // HEADS)
    scores = fnp.einsum("ihd,jhd->hij", heads, heads) / 8
    at = fnp.arange(n)
    weights = nn.softmax(scores, axis=-1, where=at[:, None] >= at)
    return fnp.einsum("hij,jhd->ihd", weights, heads).reshape(n, WIDTH)


def recurrence(x: Any) -> Any:
    """A scan over the rows of [n, 64]."""
    return lax.scan(lambda h, row: (fnp.tanh(0.5 * h + row), None), fnp.zeros(64), x[:, :64])[0]


WORK: tuple[tuple[str, Callable[..., Any], int], ...] = (
    ("exp(-x * x) * 2 + x", elementwise, 1),
    ("softmax of the rows", lambda x: nn.softmax(x, axis=-1), 1),
    ("tanh(x @ w)", layer, 2),
    ("its gradient with respect to w", layer_gradient, 2),
    ("causal attention, 4 heads of 64", attention, 1),
    ("scan over the rows, [n, 64]", recurrence, 1),
)


def row(function: Callable[..., Any], arguments: int, lengths: Sequence[int], seconds: float) -> list[str]:
    """The cells of one work: at each length our time and, in brackets, that of the program for this length."""
    size = Size("n", 1, BOUND)
    contestants = {"dynamic": jit(function, dynamic_sizes={"x": {0: size}}), "fixed": jit(function)}
    rng = np.random.default_rng(0)
    w = fnp.asarray(rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 16)
    cells = []
    for n in lengths:
        given = (fnp.asarray(rng.standard_normal((n, WIDTH)).astype(np.float32)), w)[:arguments]
        runs = {name: (partial(f, *given), block_until_ready) for name, f in contestants.items()}
        times = interleave(runs, seconds)
        cells.append(f"{times['dynamic'].min_s * 1e6:.0f} ({times['fixed'].min_s * 1e6:.0f})")
    return cells


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dynamic_sizes", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each cell is measured")
    parser.add_argument("--lengths", type=lambda text: [int(n) for n in text.split(",")], default=LENGTHS)
    options = parser.parse_args(argv)
    print(f"{'length':<34}" + "".join([f"{n:<16}" for n in options.lengths]))
    for name, function, arguments in WORK:
        cells = row(function, arguments, options.lengths, options.seconds)
        print(f"{name:<34}" + "".join([f"{cell:<16}" for cell in cells]), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
