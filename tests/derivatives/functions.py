"""The differentiable functions of fgrad.lax and fgrad.nn, and indexing, at points where they are smooth.

Those of fgrad.numpy stand in `tests/numpy/table.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad.numpy as fnp
from fgrad import lax, nn

Entry = tuple[str, Callable[..., Any], tuple[Any, ...]]
la = fnp.linalg


def points(low: float, high: float, shape: tuple[int, ...] = (2, 3), seed: int = 0) -> Any:
    """Distinct values in a range, in random order."""
    n = int(np.prod(shape))
    rng = np.random.default_rng(seed)
    steps = (np.arange(n) + rng.uniform(0.3, 0.7, n)) / max(n, 1)
    return rng.permutation(low + (high - low) * steps).reshape(shape)


A = points(-1.3, 1.4)
B = points(-1.1, 1.7, seed=1)
B[np.abs(B) < 0.1] += 0.3  # a divisor
V = points(-1.2, 1.5, (4,), seed=2)
W = points(-1.4, 1.1, (4,), seed=3)
P = points(0.3, 2.5)
M = points(-1, 1, (3, 3), seed=4) + 2 * np.eye(3)
S = M @ M.T
I = np.array([2, 0, 2])  # noqa: E741  an index with a repetition
MASK = np.array([[True, False, True], [False, True, True]])
UNIT, POSITIVE, ABOVE_ONE, ANY = (-0.85, 0.9), (0.3, 2.5), (1.2, 3.0), (-1.3, 1.4)

LAX_UNARY: dict[str, tuple[float, float]] = {
    "abs": ANY, "acos": UNIT, "acosh": ABOVE_ONE, "asin": UNIT, "asinh": ANY, "atan": ANY, "atanh": UNIT,
    "cbrt": POSITIVE, "cos": ANY, "cosh": ANY, "digamma": POSITIVE, "erf": ANY, "erfc": ANY, "erf_inv": UNIT,
    "exp": ANY, "exp2": ANY, "expm1": ANY, "lgamma": POSITIVE, "log": POSITIVE, "log1p": (-0.6, 1.2),
    "logistic": ANY, "neg": ANY, "reciprocal": POSITIVE, "rsqrt": POSITIVE, "sin": ANY, "sinh": ANY,
    "sqrt": POSITIVE, "square": ANY, "tan": (-1, 1.1), "tanh": ANY, "bessel_i0e": POSITIVE,
    "bessel_i1e": POSITIVE, "cumsum": ANY, "cumprod": ANY, "cummax": ANY, "cummin": ANY, "cumlogsumexp": ANY,
    "round": ANY, "sign": ANY, "floor": ANY,
}  # fmt: skip
NN_UNARY: dict[str, tuple[float, float]] = {
    "celu": ANY, "elu": ANY, "gelu": ANY, "hard_sigmoid": ANY, "hard_silu": ANY, "hard_tanh": (-0.9, 0.8),
    "identity": ANY, "leaky_relu": ANY, "log1mexp": POSITIVE, "log_sigmoid": ANY, "log_softmax": ANY,
    "logmeanexp": ANY, "logsumexp": ANY, "mish": ANY, "relu": ANY, "relu6": ANY, "selu": ANY, "sigmoid": ANY,
    "silu": ANY, "soft_sign": ANY, "softmax": ANY, "softplus": ANY, "sparse_plus": (-0.9, 0.8),
    "sparse_sigmoid": (-0.9, 0.8), "squareplus": ANY, "standardize": ANY, "tanh": ANY,
}  # fmt: skip
LAX_BINARY = ["add", "sub", "mul", "div", "max", "min", "atan2", "rem"]


def _named(prefix: str, module: Any, table: dict[str, tuple[float, float]]) -> list[Entry]:
    return [(f"{prefix}.{n}", getattr(module, n), (points(*r),)) for n, r in table.items()]


ENTRIES: list[Entry] = [
    *_named("lax", lax, LAX_UNARY),
    *_named("nn", nn, NN_UNARY),
    *[(f"lax.{n}", getattr(lax, n), (A, B)) for n in LAX_BINARY],
    # ---- powers
    ("numpy.power of a constant", lambda x: fnp.power(x, -1.5), (P,)),
    ("lax.pow", lax.pow, (P, B)),
    ("lax.integer_pow", lambda x: lax.integer_pow(x, -3), (P,)),
    ("powers of negative numbers", lambda x: x ** np.array([0, 1, 3]), (-P,)),
    # ---- reductions along axes
    ("numpy.sum over an axis", lambda x: fnp.sum(x, axis=0), (A,)),
    ("numpy.sum of a mask", lambda x: fnp.sum(x, where=MASK), (A,)),
    ("numpy.mean of a mask", lambda x: fnp.mean(x, axis=1, where=MASK), (A,)),
    ("numpy.var of a mask", lambda x: fnp.var(x, axis=1, where=MASK), (A,)),
    ("numpy.std, ddof", lambda x: fnp.std(x, axis=0, ddof=1, keepdims=True), (A,)),
    ("numpy.prod over an axis", lambda x: fnp.prod(x, axis=1), (A,)),
    ("numpy.max over an axis", lambda x: fnp.max(x, axis=1, keepdims=True), (A,)),
    ("numpy.cumprod along", lambda x: fnp.cumprod(x, axis=1), (A,)),
    ("lax.reduce_prod", lambda x: lax.reduce_prod(x, (0,)), (A,)),
    ("lax.reduce_max", lambda x: lax.reduce_max(x, (1,)), (A,)),
    ("lax.reduce_window", lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "VALID"), (A,)),
    ("lax.associative_scan", lambda x: lax.associative_scan(lax.mul, x), (V,)),
    ("nn.logsumexp of factors", lambda x, b: nn.logsumexp(x, axis=1, b=b), (A, P)),
    ("nn.softmax of a mask", lambda x: nn.softmax(x, where=MASK), (A,)),
    ("nn.standardize of a mask", lambda x: nn.standardize(x, where=MASK), (A,)),
    # ---- products
    ("numpy.einsum of a diagonal", lambda x: fnp.einsum("ii->i", x), (M,)),
    ("numpy.linalg.norm of rows", lambda x: la.norm(x, axis=1), (A,)),
    ("numpy.linalg.norm, 3", lambda x: la.norm(x, 3), (V,)),
    ("numpy.linalg.norm, inf", lambda x: la.norm(x, np.inf), (V,)),
    # ---- elements moved, chosen and written
    ("an index with repetitions", lambda x: x[:, I], (A,)),
    ("a reversed slice", lambda x: x[::-1, ::2], (A,)),
    ("at set", lambda x, y: x.at[:, I].set(y), (A, B)),
    ("at add", lambda x, y: x.at[:, I].add(y), (A, B)),
    ("at multiply", lambda x, y: x.at[0].multiply(y[1]), (A, B)),
    ("at multiply with repetitions", lambda x, y: x.at[I].multiply(y), (V, V[:3])),
    ("at max", lambda x, y: x.at[I].max(y), (V, W[:3])),
    ("at power", lambda x: x.at[1].power(2), (A,)),
    ("lax.dynamic_slice", lambda x: lax.dynamic_slice(x, (0, 1), (2, 2)), (A,)),
    ("lax.dynamic_update_slice", lambda x, y: lax.dynamic_update_slice(x, y, (0, 1)), (A, B[:, :2])),
    ("lax.sort", lambda x, y: lax.sort((x, y), num_keys=1), (V, W)),
    ("lax.top_k", lambda x: lax.top_k(x, 2)[0], (V,)),
    ("lax.select", lambda x, y: lax.select(MASK, x, y), (A, B)),
    ("lax.clamp", lambda x: lax.clamp(-0.5, x, 0.6), (A,)),
    ("lax.rev", lambda x: lax.rev(x, (0,)), (A,)),
    ("lax.pad", lambda x, p: lax.pad(x, p, [(1, 2, 1)]), (V, np.array(0.3))),
    ("lax.igamma", lambda x: lax.igamma(1.7, x), (P,)),
    ("lax.igammac", lambda x: lax.igammac(0.6, x), (P,)),
    ("lax.betainc", lambda x: lax.betainc(1.5, 0.7, x), (points(0.1, 0.9),)),
    ("lax.polygamma", lambda x: lax.polygamma(1, x), (P,)),
    ("lax.zeta", lambda x: lax.zeta(2.5, x), (P,)),
    ("lax.conv", lambda x, w: lax.conv(x, w, (1, 2), "SAME"),
     (points(-1, 1, (1, 2, 4, 4)), points(-1, 1, (2, 2, 3, 2), seed=5))),
    ("nn.glu", nn.glu, (V,)),
    ("nn.gelu exactly", lambda x: nn.gelu(x, approximate=False), (A,)),
    ("nn.avg_pool", lambda x: nn.avg_pool(x, (2, 2)), (points(-1, 1, (1, 3, 3, 1)),)),
    ("nn.max_pool", lambda x: nn.max_pool(x, (2, 2)), (points(-1, 1, (1, 3, 3, 1)),)),
    ("nn.dot_product_attention", lambda q, k: nn.dot_product_attention(q, k, k, is_causal=True),
     (points(-1, 1, (1, 3, 2, 2)), points(-1, 1, (1, 3, 2, 2), seed=6))),
    # ---- control flow
    ("lax.scan", lambda c, x: lax.scan(lambda c, r: (fnp.sin(c + r), c * r), c, x), (B[0], A)),
    ("lax.cond", lambda x: lax.cond(x[0] < 9, fnp.sin, fnp.cos, x), (V,)),
    ("lax.switch", lambda x: lax.switch(1, [fnp.sin, fnp.exp, fnp.cos], x), (V,)),
    ("lax.fori_loop", lambda x: lax.fori_loop(0, 3, lambda i, v: fnp.sin(v) * (i + 1), x), (V,)),
    ("lax.map", lambda x: lax.map(fnp.tanh, x), (A,)),
    ("lax.while_loop, max_steps", lambda x: lax.while_loop(lambda v: fnp.sum(v) < 5,
                                                           lambda v: v * 1.5 + 0.1, x, max_steps=6), (P,)),
]  # fmt: skip
