"""A choice between old and updated contents becomes a gated UPDATE."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fgrad.trace.reference import evaluate
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, open_param, toposort, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.simplify import simplify

X = open_param(dt.float64, (4, 6))
C, R, CX = open_param(dt.bool_, ()), open_param(dt.bool_, (4,)), open_param(dt.bool_, (4, 6))
V = open_param(dt.float64, (2, 3))
W = open_param(dt.float64, (4, 2))
IDX, J = open_param(dt.int64, (2,)), open_param(dt.int64, (4, 2))
S = open_param(dt.int64, ())
BOX = ((1, 2, 1), (0, 3, 2))
rows = b.expand(R, [(1, 6)])
whole = b.broadcast_to(C, (4, 6))
boxed = b.update(X, V, box=BOX)
indexed = b.update(X, b.const(7, dt.float64, (2, 6)), idx=IDX, mode=Mode.ADD)
batched = b.update(X, W, idx=J, batch=1)
moving = b.update(X, V, box=((None, 2, 1), (0, 3, 2)), starts=[S])
once = b.update(X, b.slice_axis(V, 0, 0, 1), box=((1, 1, 1), (0, 3, 2)))
twice = b.update(once, W, idx=J, batch=1, gate=b.lt(W, 0))
viewed = b.update(b.reshape(X, (4, 3, 2)), b.expand(W, [(1, 1)]), box=((0, 4, 1), (1, 1, 1), (0, 2, 1)))
GATED = {
    "a box": b.where(CX, boxed, X),
    "the other way round": b.where(CX, X, boxed),
    "a computed start": b.where(CX, moving, X),
    "indices, whole": b.where(whole, indexed, X),
    "indices, by rows": b.where(rows, indexed, X),
    "indices in a batch": b.where(rows, batched, X),
    "indices in a batch, each": b.where(CX, batched, X),
    "one after the other, gated already": b.where(rows, twice, X),
    "below a view": b.where(rows, b.reshape(viewed, (4, 6)), X),
}  # fmt: skip


def environment(seed: int) -> dict[UOp, Any]:
    rng = np.random.default_rng(seed)
    env = {p: rng.standard_normal(p.shape) for p in (X, V, W)}
    env |= {p: rng.random(p.shape) < 0.5 for p in (C, R, CX)}
    return env | {p: rng.integers(-1, 7, p.shape) for p in (IDX, J, S)}


@pytest.mark.parametrize("u", GATED.values(), ids=GATED.keys())
def test_a_choice_becomes_a_gate(u: UOp) -> None:
    (simple,) = simplify([u])
    ops = [q.op for q in toposort([simple]) if q.shape == (4, 6)]
    assert Op.WHERE not in ops
    for seed in range(12):
        env = environment(seed)
        for got, want in zip(evaluate([simple], env), evaluate([u], env), strict=True):
            np.testing.assert_array_equal(got, want)


KEPT = {
    "other contents": b.where(rows, boxed, uop(Op.NEG, (X,))),
    "indices of rows, chosen by elements": b.where(CX, indexed, X),
    "most of it": b.where(CX, b.update(X, X, box=((0, 4, 1), (0, 6, 1)), mode=Mode.ADD), X),
}


@pytest.mark.parametrize("u", KEPT.values(), ids=KEPT.keys())
def test_other_choices_stay(u: UOp) -> None:
    assert simplify([u])[0].op is Op.WHERE
