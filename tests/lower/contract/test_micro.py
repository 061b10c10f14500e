"""Micro-kernels and their driver against NumPy, for every element and every width of vector."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from micro_harness import NUMPY, Run, host_machine

from fgrad.lower.micro.driver import D, Pack
from fgrad.lower.micro.machine import Element, Machine
from fgrad.lower.micro.plan import Access, make_plan
from fgrad.lower.micro.slots import FIRST, LAST, Micro, micro_ir, micro_slots

HOST = host_machine()
MACHINES = [Machine(v, HOST.fma) for v in (16, 32, 64) if v <= HOST.vector]
SHAPES = [  # batch, m, n, k
    (1, 64, 64, 64),
    (1, 14, 32, 16),
    (1, 17, 33, 65),
    (1, 100, 70, 1500),
    (3, 20, 40, 30),
    (1, 300, 130, 90),
    (1, 2, 1000, 9),
    (2, 200, 100, 50),
    (1, 1, 1, 1),
    (1, 300, 1, 77),
    (9, 1, 50, 40),
    (1, 181, 40, 2100),
]


def made(rng: np.random.Generator, dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-1000, 1000, shape).astype(dtype)


def matrix(
    rng: np.random.Generator, dtype: type, batch: int, rows: int, columns: int, layout: str
) -> np.ndarray:
    lead = (batch,) if batch > 1 else ()
    if layout == "rows":
        return made(rng, dtype, (*lead, rows, columns))
    if layout == "columns":
        return made(rng, dtype, (*lead, columns, rows)).swapaxes(-1, -2)
    return made(rng, dtype, (*lead, 2 * rows, 3 * columns))[..., ::2, ::3]


def check(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Integers are below 1000, so that their products are exact in float64."""
    want = a.astype(np.float64) @ b.astype(np.float64)
    if a.dtype.kind == "f":
        scale = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
        bound = np.finfo(a.dtype).eps * (8 + a.shape[-1] ** 0.5) * scale + 1e-30
        assert (np.abs(got.reshape(want.shape) - want) <= bound).all()
    else:
        np.testing.assert_array_equal(got.reshape(want.shape), want.astype(np.int64).astype(a.dtype))


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m.vector}B")
@pytest.mark.parametrize("element", list(Element), ids=lambda e: e.bits)
def test_products_of_all_layouts_agree_with_numpy(machine: Machine, element: Element) -> None:
    rng = np.random.default_rng(1)
    for batch, m, n, k in SHAPES:
        for one, two in itertools.product(("rows", "columns", "neither"), repeat=2):
            a = matrix(rng, NUMPY[element], batch, m, k, one)
            b = matrix(rng, NUMPY[element], batch, k, n, two)
            for straight, turned in ((True, False), (False, True)):
                check(Run(machine, a, b, straight, turned)(), a, b)


@pytest.mark.parametrize("shape", [(1, 1, 3000, 700), (1, 1, 70, 5000), (3, 1, 333, 100)])
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_a_vector_times_a_matrix_reads_the_matrix_in_place(
    shape: tuple[int, ...], layout: str
) -> None:
    batch, m, n, k = shape
    rng = np.random.default_rng(2)
    for dtype in NUMPY.values():
        a, b = matrix(rng, dtype, batch, m, k, "rows"), matrix(rng, dtype, batch, k, n, layout)
        run = Run(HOST, a, b)
        assert run.plan.vector_form
        check(run(), a, b)


def test_large_products_use_packed_columns_and_blocks_of_k() -> None:
    rng = np.random.default_rng(3)
    a, b = made(rng, np.float32, (300, 2500)), made(rng, np.float32, (2500, 700))
    run = Run(HOST, a, b)
    assert run.plan.packed and run.plan.words[D.BLOCKS] > 1 and run.plan.units > 1
    assert run.plan.words[D.B_MODE] == Pack.SHARED
    check(run(), a, b)


def test_values_beyond_the_ends_never_matter() -> None:
    """Operands end right where their memory does not: what lies behind is NaN."""
    rng = np.random.default_rng(4)
    for m, n, k in ((5, 19, 21), (15, 33, 7)):
        frame_a, frame_b = (
            np.full((m + 3, k + 5), np.nan, np.float32),
            np.full((k + 3, n + 5), np.nan, np.float32),
        )
        frame_a[:m, :k], frame_b[:k, :n] = (
            made(rng, np.float32, (m, k)),
            made(rng, np.float32, (k, n)),
        )
        a, b = frame_a[:m, :k], frame_b[:k, :n]
        check(Run(HOST, a, b)(), np.ascontiguousarray(a), np.ascontiguousarray(b))


def test_nan_and_infinity_go_through() -> None:
    a, b = np.ones((20, 30), np.float32), np.ones((30, 40), np.float32)
    a[3, 4], b[7, 11] = np.nan, np.inf
    got = Run(HOST, a, b)()[0]
    np.testing.assert_array_equal(got, a @ b)


def test_the_same_units_give_the_same_bits_in_any_order() -> None:
    rng = np.random.default_rng(5)
    a, b = made(rng, np.float32, (200, 300)), made(rng, np.float32, (300, 400))
    run = Run(HOST, a, b)
    first = run().copy()
    assert (run() == first).all()


@pytest.mark.parametrize("vector", [16, 32, 64])
def test_plans_cover_every_panel_once(vector: int) -> None:
    machine = Machine(vector, True)
    rng = np.random.default_rng(6)
    for _ in range(300):
        batch, m, n, k = [int(2 ** rng.uniform(0, top)) for top in (5, 12, 12, 12)]
        for element in (Element.F32, Element.F64):
            plan = make_plan(machine, element, batch, m, n, k, Access(k, 1), Access(1, n))
            w = plan.words
            if plan.vector_form:
                assert w[D.PN] * w[D.UNITS_N] >= w[D.PANELS_N] > w[D.PN] * (w[D.UNITS_N] - 1)
                continue
            assert w[D.ROWS] * (w[D.PANELS_M] - 1) < m <= w[D.ROWS] * w[D.PANELS_M]
            assert w[D.WIDTH] * (w[D.PANELS_N] - 1) < n <= w[D.WIDTH] * w[D.PANELS_N]
            assert w[D.KC] * (w[D.BLOCKS] - 1) < k <= w[D.KC] * w[D.BLOCKS]
            units_m = plan.units // w[D.UNITS_N]
            assert w[D.PM] * (units_m - 1) < w[D.PANELS_M] <= w[D.PM] * units_m
            assert w[D.PN] * (w[D.UNITS_N] - 1) < w[D.PANELS_N] <= w[D.PN] * w[D.UNITS_N]
            assert plan.scratch < 16 << 20


def test_every_function_has_its_own_slot() -> None:
    keys = [Micro("driver")] + [Micro(kind, size) for kind in ("pack", "turn") for size in (4, 8)]
    keys += [Micro("vector", element=e) for e in Element]
    keys += [
        Micro("tile", 0, e, r, v, by_rows)
        for e in Element
        for r in range(1, 17)
        for v in (1, 2)
        for by_rows in (False, True)
    ]
    slots = [slot for key in keys for _, slot in micro_slots(key)]
    assert len(set(slots)) == len(slots)
    assert min(slots) >= FIRST and max(slots) <= LAST


def test_texts_call_nothing_outside() -> None:
    for key in (
        Micro("driver"),
        Micro("pack", 4),
        Micro("turn", 8),
        Micro("vector", element=Element.F64),
        Micro("tile", rows=2, vectors=1),
    ):
        text, _ = micro_ir(key, HOST)
        for line in text.splitlines():
            assert not line.startswith("declare") or "@llvm." in line
            assert " alloca " not in line


def test_unknown_modules_are_refused() -> None:
    with pytest.raises(ValueError, match="no module of micro-kernels is called 'nothing'"):
        micro_slots(Micro("nothing"))
