"""Random programs full of contractions: what is fused around them must not change their meaning."""

from __future__ import annotations

import numpy as np
import pytest

from fgrad.uop import build as ub
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, open_param
from fgrad.uop.op import Op
from fgrad.uop.program import Program, close
from tests.lower.harness import agree, sample

SIZES = (2, 3, 8, 16, 17, 33, 40, 64)
UNARY = (ub.tanh, ub.neg, ub.abs_, ub.sin)


def contraction(rng: np.random.Generator, a: UOp, b: UOp) -> UOp | None:
    """A sum of products of two nodes along axes of equal size, None if they have none."""
    pairs = [(i, j) for i in range(a.ndim) for j in range(b.ndim) if a.shape[i] == b.shape[j] > 1]
    if not pairs:
        return None
    i, j = pairs[rng.integers(len(pairs))]
    batch = [(p, q) for p, q in pairs if p != i and q != j]
    shared = [batch[rng.integers(len(batch))]] if batch and rng.random() < 0.5 else []
    free_a = [x for x in range(a.ndim) if x != i and x not in [p for p, _ in shared]]
    free_b = [x for x in range(b.ndim) if x != j and x not in [q for _, q in shared]]
    axes = [("s", n) for n in range(len(shared))]
    axes += [("a", x) for x in free_a] + [("b", x) for x in free_b]
    rng.shuffle(axes)
    order = [*axes, ("k", 0)]
    size: dict[tuple[str, int], int] = {("k", 0): a.shape[i]}
    size |= {("a", x): a.shape[x] for x in free_a} | {("b", x): b.shape[x] for x in free_b}
    size |= {("s", n): a.shape[p] for n, (p, _) in enumerate(shared)}

    def spread(x: UOp, own: str, k: int, which: int) -> UOp:
        names = [("k", 0) if n == k else (own, n) for n in range(x.ndim)]
        for n, pair in enumerate(shared):
            names[pair[which]] = ("s", n)
        x = ub.permute(x, [names.index(o) for o in order if o in names])
        return ub.expand(x, [(p, size[o]) for p, o in enumerate(order) if o not in names])

    product = ub.mul(spread(a, "a", i, 0), spread(b, "b", j, 1))
    return ub.reduce_(product, [len(order) - 1])


def changed(rng: np.random.Generator, x: UOp) -> UOp:
    """Some view or elementwise change of a node."""
    what = rng.integers(7)
    if what == 0 and x.ndim > 1:
        return ub.permute(x, [int(i) for i in rng.permutation(x.ndim)])
    if what == 1 and x.ndim > 1:
        i = int(rng.integers(x.ndim - 1))
        return ub.reshape(x, (*x.shape[:i], x.shape[i] * x.shape[i + 1], *x.shape[i + 2 :]))
    if what == 2 and x.ndim:
        i = int(rng.integers(x.ndim))
        f = next((f for f in (4, 2, 3, 5) if x.shape[i] % f == 0 and x.shape[i] > f), 0)
        return ub.reshape(x, (*x.shape[:i], f, x.shape[i] // f, *x.shape[i + 1 :])) if f else x
    if what == 3 and x.ndim:
        i = int(rng.integers(x.ndim))
        return ub.pad(x, [(int(n == i), 2 * int(n == i), 0) for n in range(x.ndim)])
    if what == 4 and x.ndim:
        i = int(rng.integers(x.ndim))
        return ub.flip(x, [i])
    if what == 5 and x.ndim:
        i = int(rng.integers(x.ndim))
        n = x.shape[i]
        if n > 2:
            return ub.shrink(
                x, [(1, m - 1, 1) if p == i else (0, m, 1) for p, m in enumerate(x.shape)]
            )
    return UNARY[rng.integers(len(UNARY))](x)


def random_program(seed: int) -> Program:
    rng = np.random.default_rng(seed)
    dtype = (dt.float32, dt.float64, dt.float32, dt.bfloat16)[rng.integers(4)]
    sizes = [SIZES[i] for i in rng.choice(len(SIZES), 4)]
    params = []
    for _ in range(rng.integers(2, 5)):
        shape = tuple([int(sizes[i]) for i in rng.integers(0, 4, rng.integers(1, 4))])
        params.append(open_param(dtype, shape))
    nodes: list[UOp] = list(params)
    for _ in range(rng.integers(4, 14)):
        a, b = [nodes[int(i)] for i in rng.integers(0, len(nodes), 2)]
        what = rng.random()
        new: UOp | None = None
        if what < 0.55:
            new = contraction(rng, a, b)
        elif what < 0.7 and a.shape == b.shape:
            new = (ub.add, ub.mul, ub.maximum)[rng.integers(3)](a, b)
        elif what < 0.78 and a.ndim > 1:
            axis = int(rng.integers(a.ndim))
            row = ub.reduce_(a, [axis], Op.ADD if rng.random() < 0.5 else Op.MAX)
            new = ub.mul(a, ub.expand(row, [(axis, a.shape[axis])]))
        else:
            new = changed(rng, a)
        if new is not None and new.size <= 30000 and new.ndim <= 5:
            # sums stay of the size of their terms, so that errors do too
            scale = ub.const(float(max(1, a.shape[-1] if a.ndim else 1) ** -0.5), dtype, new.shape)
            nodes.append(ub.mul(new, scale) if new.op is Op.REDUCE else new)
    outs = [nodes[-1]] + [nodes[int(i)] for i in rng.integers(0, len(nodes), rng.integers(0, 3))]
    return close(params, outs)


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_programs_agree_with_the_reference(first: int) -> None:
    found = 0
    for seed in range(first, first + 10):
        program = random_program(seed)
        rng = np.random.default_rng(seed)
        arrays = [sample(rng, p.dtype, p.shape) for p in program.params]
        small = program.params[0].dtype is dt.bfloat16
        compiled = agree(program, arrays, scale=8.0 if small else 30.0)
        found += sum("contract" in k.name for k in compiled.lowered.kernels)
    assert found > 0
