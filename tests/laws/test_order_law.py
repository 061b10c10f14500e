"""check_order and functionalise against a machine that really has memory, on random raw graphs.

The oracle knows nothing of clocks or regions: it compares sets of elements and sets of nodes, as
the clauses are worded. A graph that it refuses must be refused. One that it accepts is executed on
NumPy memory in the order that the clauses give, and must leave what functionalise computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fgrad.errors import OrderingError
from fgrad.trace.functionalise import functionalise
from fgrad.trace.reference import evaluate
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, open_param, toposort, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.order import check_order

SIZE = 6
MOVES = (Op.SHRINK, Op.FLIP)


@st.composite
def graphs(draw: Callable[..., Any]) -> tuple[list[UOp], list[UOp]]:
    """(outs, the two buffers) of a graph of stores, reads and orders that may or may not hold."""
    buffers = [open_param(dt.float64, (SIZE,), name) for name in "xy"]
    states = list(buffers)
    values: list[UOp] = []

    def choose(options: list[Any]) -> Any:
        # mostly what is new: graphs of only old states are refused all the time
        newest = len(options) - 1
        return options[max(draw(st.integers(0, newest)), draw(st.integers(0, newest)))]

    def view(x: UOp, size: int) -> UOp:
        step = draw(st.integers(1, 2)) if 2 * size - 1 <= SIZE else 1
        start = draw(st.integers(0, SIZE - (size - 1) * step - 1))
        part = b.shrink(x, [(start, size, step)])
        return b.flip(part, [0]) if draw(st.booleans()) and draw(st.booleans()) else part

    def value(size: int) -> UOp:
        kind = draw(st.integers(0, 3))
        if kind == 0:
            return b.const(draw(st.integers(1, 9)), dt.float64, (size,))
        x = b.mul(view(choose(states), size), float(draw(st.integers(2, 5))))
        return x if kind < 3 else b.add(x, view(choose(states), size))

    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.integers(0, 4))
        if kind < 3:
            size = draw(st.sampled_from([1, 2, 3, SIZE]))
            mode = draw(st.sampled_from([Mode.SET, Mode.SET, Mode.ADD]))
            target = choose(states)
            write = uop(Op.STORE, (view(target, size), value(size)), mode)
            more = [write] if draw(st.booleans()) else [write, choose([*values, *states])]
            states.append(uop(Op.AFTER, (target, *more)))
            if draw(st.booleans()):
                states.append(uop(Op.AFTER, (choose(states), write)))
        elif kind == 3:
            values.append(value(SIZE))
        else:
            snapshot = uop(Op.LOAD, (choose(states),), len(states))
            states.append(snapshot)
            values.append(snapshot)
    outs = [states[-1], *values[-2:], *([choose(states)] if draw(st.booleans()) else [])]
    return outs, buffers


class Oracle:
    """The clauses, word by word."""

    def __init__(self, outs: list[UOp]) -> None:
        self.outs = outs
        self.order = toposort(outs)
        self.past: dict[UOp, set[UOp]] = {}
        for u in self.order:
            self.past[u] = {u}.union(*[self.past[s] for s in u.src])
        self.stores = [u for u in self.order if u.op is Op.STORE]

    def base(self, x: UOp) -> UOp | None:
        while x.op in MOVES or x.op is Op.AFTER:
            x = x.src[0]
        return x if x.op in (Op.PARAM, Op.LOAD) else None

    def elements(self, x: UOp) -> np.ndarray:
        """Flat positions in the buffer, in the view's order."""
        if x.op is Op.AFTER:
            return self.elements(x.src[0])
        if x.op is Op.FLIP:
            return self.elements(x.src[0])[::-1]
        if x.op is Op.SHRINK:
            ((start, size, step),) = x.arg
            return self.elements(x.src[0])[start : start + (size - 1) * step + 1 : step]
        return np.arange(SIZE)

    def meet(self, x: UOp, y: UOp) -> bool:
        same = self.base(x) is self.base(y)
        return same and bool(set(self.elements(x)) & set(self.elements(y)))

    def reads(self, u: UOp) -> list[UOp]:
        if u.op in (*MOVES, Op.AFTER) and self.base(u) is not None:
            return []
        skip = u.op is Op.STORE and u.arg is Mode.SET
        return [x for x in (u.src[1:] if skip else u.src) if self.base(x) is not None]

    def schedule(self) -> list[UOp | int] | None:
        """An order that holds every clause, or None. A number is the reading of that out."""
        for i, s in enumerate(self.stores):
            for t in self.stores[:i]:
                if t not in self.past[s] and self.meet(s.src[0], t.src[0]):
                    return None
        steps: list[UOp | int] = [*self.order, *range(len(self.outs))]
        first: dict[UOp | int, set[UOp | int]] = {u: set(u.src) for u in self.order}
        first.update({k: {o} for k, o in enumerate(self.outs)})
        for u in steps:
            wanted = [self.outs[u]] if isinstance(u, int) else self.reads(u)
            for x in [x for x in wanted if self.base(x) is not None]:
                for s in self.stores:
                    if s is not u and s not in self.past[x] and self.meet(x, s.src[0]):
                        first[s].add(u)
        out: list[UOp | int] = []
        done: set[UOp | int] = set()
        while len(out) < len(steps):
            ready = [u for u in steps if u not in done and first[u] <= done]
            if not ready:
                return None
            out.append(ready[0])
            done.add(ready[0])
        return out

    def execute(
        self, schedule: list[UOp | int], env: dict[UOp, np.ndarray]
    ) -> tuple[list[np.ndarray], dict[UOp, np.ndarray]]:
        """-> (values of the outs, memory at the end)."""
        memory = {p: x.copy() for p, x in env.items()}
        values: dict[UOp, np.ndarray] = {}
        outs = [np.empty(0)] * len(self.outs)

        def see(x: UOp) -> np.ndarray:
            base = self.base(x)
            return values[x] if base is None else memory[base][self.elements(x)].copy()

        for u in schedule:
            if isinstance(u, int):
                outs[u] = see(self.outs[u])
            elif u.op is Op.LOAD:
                values[u] = see(u.src[0])
                memory[u] = values[u].copy()
            elif u.op is Op.STORE:
                new, where = see(u.src[1]), (self.base(u.src[0]), self.elements(u.src[0]))
                old = memory[where[0]][where[1]]
                memory[where[0]][where[1]] = old + new if u.arg is Mode.ADD else new
            elif u.op not in (Op.AFTER, *MOVES, Op.PARAM):
                (values[u],) = evaluate([u], {s: see(s) for s in u.src})
        return outs, memory


@settings(max_examples=200)
@given(graphs())
def test_verdicts_and_values_are_those_of_a_machine_with_memory(
    case: tuple[list[UOp], list[UOp]],
) -> None:
    outs, buffers = case
    oracle = Oracle(outs)
    schedule = oracle.schedule()
    event("refused" if schedule is None else "accepted")
    try:
        check_order(outs)
    except OrderingError:
        assert schedule is None
        return
    assert schedule is not None
    env = {p: np.arange(SIZE) * (i + 1.0) - 2 for i, p in enumerate(buffers)}
    values, memory = oracle.execute(schedule, env)
    pure, final = functionalise(outs)
    for want, got in zip(values, evaluate(pure, env), strict=True):
        np.testing.assert_array_equal(got, want)
    for p, got in zip(final, evaluate(list(final.values()), env), strict=True):
        np.testing.assert_array_equal(got, memory[p])
    written = {oracle.base(s.src[0]) for s in oracle.stores}
    assert set(final) == {p for p in buffers if p in written}
