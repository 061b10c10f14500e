"""Updates cost what they write: donated arrays, carries and Refs are changed where they are; nothing is left over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import jit, lax, new_ref
from fgrad.config import config
from fgrad.errors import DonatedError

SHAPE = (1024, 1024)
BYTES = 4 * 1024 * 1024
ROWS = np.array([3, 700, 3, 12])


@pytest.fixture(autouse=True)
def planned() -> Iterator[None]:
    """What shares memory is planned, also where the suite runs without that."""
    with config.override(planner=True):
        yield


def one_place(x: Any, i: Any, v: Any) -> Any:
    return x.at[i, 2].set(v)


def one_row(x: Any, i: Any, v: Any) -> Any:
    return lax.dynamic_update_slice(x, fnp.full((1, 1024), v, x.dtype), (i, 0))


def rows_by_index(x: Any, i: Any, v: Any) -> Any:
    return x.at[ROWS + i].add(v)


def a_static_part(x: Any, i: Any, v: Any) -> Any:
    return x.at[10:20, ::2].multiply(v)


def a_chain(x: Any, i: Any, v: Any) -> Any:
    return x.at[i, 0].set(v).at[i + 1].add(1.0).at[:, 5].set(x[:, 6])


def what_stood_there_before(x: Any, i: Any, v: Any) -> Any:
    return x.at[i].set(x[i] * v + x[i + 1])


def in_a_loop(x: Any, i: Any, v: Any) -> Any:
    return lax.fori_loop(0, 50, lambda k, x: x.at[i + k].set(v + k), x)


def in_a_scan_with_a_result(x: Any, i: Any, v: Any) -> Any:
    def step(x: Any, k: Any) -> Any:
        return x.at[k].add(v), x[k].sum()

    x, sums = lax.scan(step, x, fnp.arange(20))
    return x.at[i, 0].set(sums.sum())


def in_a_while(x: Any, i: Any, v: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 20, lambda c: (c[0] + 1, c[1].at[c[0], i].set(v)), (0, x))[1]


def in_a_branch(x: Any, i: Any, v: Any) -> Any:
    return lax.cond(v > 0, lambda x: x.at[i].set(v), lambda x: x.at[i].add(v), x)


UPDATES = [one_place, one_row, rows_by_index, a_static_part, a_chain, what_stood_there_before, in_a_loop,
           in_a_scan_with_a_result, in_a_while]  # fmt: skip


def pool() -> dict[str, int]:
    return fgrad.debug.memory()


@pytest.mark.parametrize("update", UPDATES, ids=lambda f: f.__name__)
def test_a_donated_array_is_changed_where_it_is(update: Callable[..., Any]) -> None:
    f = jit(update, donate_argnums=0)
    x = fnp.asarray(np.random.default_rng(0).standard_normal(SHAPE, np.float32)) + 0
    want = update(x.copy(), 5, 2.0)
    x = f(x, 5, 2.0)
    assert fnp.array_equal(x, want)  # not by NumPy: what NumPy looks at is left alone, and copied
    place, peak = x.addr, pool()["peak"]
    for k in range(10):
        x = f(x, k, 2.0)
        assert x.addr == place
    x.block_until_ready()
    assert pool()["peak"] - peak < BYTES // 2


@pytest.mark.parametrize("update", UPDATES, ids=lambda f: f.__name__)
def test_an_array_that_is_still_needed_is_copied(update: Callable[..., Any]) -> None:
    x = fnp.zeros(SHAPE)
    f = jit(update)
    first, second = f(x, 5, 2.0), f(x, 5, 2.0)
    assert len({x.addr, first.addr, second.addr}) == 3
    assert not fnp.any(x)
    both = jit(lambda x: (update(x, 5, 2.0), x * 1), donate_argnums=0)(fnp.zeros(SHAPE))
    np.testing.assert_array_equal(both[0], first)
    assert not fnp.any(both[1])


@pytest.mark.parametrize("update", [*UPDATES, in_a_branch], ids=lambda f: f.__name__)
def test_a_ref_is_changed_where_it_is(update: Callable[..., Any]) -> None:
    r = new_ref(fnp.zeros(SHAPE))

    @jit
    def f(r: Any, i: Any, v: Any) -> None:
        r[...] = update(r[...], i, v)

    f(r, 5, 2.0)
    assert fnp.array_equal(r[...], update(fnp.zeros(SHAPE), 5, 2.0))
    place, peak = r[...].addr, pool()["peak"]
    for k in range(10):
        f(r, k, 2.0)
        assert r[...].addr == place
    assert pool()["peak"] - peak < BYTES // 2
    snapshot = r[...]
    before = np.asarray(snapshot).copy()
    f(r, 3, 7.0)
    np.testing.assert_array_equal(snapshot, before)
    assert r[...].addr != snapshot.addr


def test_a_loop_holds_one_array() -> None:
    """Under a jit without donation too there is one copy, whatever the number of steps."""
    x = fnp.zeros(SHAPE)
    f = jit(lambda x: lax.fori_loop(0, 500, lambda i, x: x.at[i].add(1.0), x))
    assert f.lower(x).memory_analysis()["temporary_bytes"] < BYTES // 2
    f(x).block_until_ready()
    peak = pool()["peak"]
    f(x).block_until_ready()
    assert pool()["peak"] - peak < BYTES // 2


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("shape", [(100,), (64, 1024)])
def test_many_updates_leave_nothing_behind(shape: tuple[int, ...]) -> None:
    def run(x: Any, times: int) -> Any:
        for i in range(times):
            x = x.at[i % shape[0]].set(float(i)).at[0].add(1.0)
        return x.block_until_ready()

    x = run(fnp.zeros(shape), 100)
    before, was = pool(), resident()
    x = run(x, 1000)
    after = pool()
    assert after["in_use"] <= before["in_use"]
    assert after["nodes"] <= before["nodes"] + 10
    assert resident() - was < 4 << 20


# ---- what was given away
def test_a_donated_array_says_who_took_it() -> None:
    @partial(jit, donate_argnums=0)
    def take(x: Any) -> Any:
        return x + 1

    x = fnp.zeros(4)
    take(x)
    uses: dict[str, Callable[[], Any]] = {
        "an operator": lambda: x + 1,
        "NumPy": lambda: np.asarray(x),
        "a number": lambda: float(x[0]),
        "text": lambda: x.tolist(),
        "a call": lambda: jit(lambda y: y * 2)(x),
        "the same call": lambda: take(x),
        "a capture": lambda: jit(lambda y: y + x)(1.0),
        "grad": lambda: fgrad.grad(lambda y: (y * x).sum())(fnp.ones(4)),
        "vmap": lambda: fgrad.vmap(lambda a: a * 2)(x),
        "scan": lambda: lax.scan(lambda c, a: (c + a, None), 0.0, x),
        "a Ref": lambda: new_ref(x),
        "a store": lambda: new_ref(fnp.zeros(4)).__setitem__(..., x),
        "at": lambda: x.at[0].set(1.0),
        "a copy": lambda: x.copy(),
        "dlpack": lambda: np.from_dlpack(x),
        "iteration": lambda: list(x),
        "waiting": lambda: fgrad.block_until_ready([x])[0] + 1,
    }
    for name, use in uses.items():
        with pytest.raises(DonatedError, match="donated to take"):
            raise AssertionError(f"{name} gave {use()}")


def test_a_captured_array_that_was_given_away_is_refused() -> None:
    x = fnp.ones(4)
    f = jit(lambda y: y + x)
    assert f(1.0).tolist() == [2] * 4
    jit(lambda x: x * 2, donate_argnums=0)(x)
    with pytest.raises(DonatedError, match="donated"):
        f(1.0)


def test_a_ref_outlives_the_array_that_it_was_made_of() -> None:
    take = jit(lambda x: x * 2, donate_argnums=0)
    x, y = fnp.arange(3.0) * 1, fnp.ones(3) * 1
    r = new_ref(x)
    take(x)
    assert r[...].tolist() == [0, 1, 2]
    r[...] = y
    take(y)
    r[0] += 1
    assert r[...].tolist() == [2, 1, 1]


def test_a_ref_may_be_named_among_the_donated() -> None:
    add = jit(lambda r, x: r.addupdate(..., x), donate_argnums=(0, 1))
    r, x = new_ref(fnp.zeros(3)), fnp.ones(3) * 1
    add(r, x)
    assert r[...].tolist() == [1] * 3 and x.is_deleted()
    add(r, fnp.ones(3))
    assert r[...].tolist() == [2] * 3


def test_results_share_no_memory() -> None:
    x = fnp.arange(6.0)
    same = jit(lambda x: (x, x, x.reshape(2, 3), x * 1))(x)
    assert len({x.addr, *[y.addr for y in same]}) == 5
    out = fgrad.vmap(lambda a: (a, a))(x)
    assert len({x.addr, *[y.addr for y in out]}) == 3
    (carry, ys) = lax.scan(lambda c, a: (c, c), x, None, length=1)
    assert len({x.addr, carry.addr, ys.addr}) == 3
    twice = lax.cond(True, lambda a: (a, a), lambda a: (a, a), x)
    assert len({x.addr, *[y.addr for y in twice]}) == 3
    r = new_ref(x)
    r[0] = 7.0
    assert x[0] == 0


def test_host_memory_is_read_when_it_is_given() -> None:
    host = np.zeros(4, np.float32)
    r = new_ref(host)
    later = jit(lambda a: a + 1)
    results = []
    for k in range(20):
        host[:] = k
        results.append(later(host))
        results.append(fnp.add(host, 1.0))
        results.append(fgrad.vmap(lambda a: a + 1)(host))
        results.append(lax.map(lambda a: a + 1, host))
        r[...] = host
        host[:] = -1
        assert r[...].tolist() == [k] * 4
    assert [y.tolist() for y in results] == [[k + 1] * 4 for k in range(20) for _ in range(4)]
    closed = jit(lambda: fnp.asarray(host) + 0)
    host[:] = 3
    assert closed().tolist() == [3] * 4
    seen = np.asarray(results[0])
    assert not seen.flags.writeable or not np.shares_memory(seen, np.asarray(results[0]))
