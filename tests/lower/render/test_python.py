from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest

from fgrad.errors import BadAccessError, SpecError
from fgrad.lower.index import Ranges
from fgrad.lower.kernel import Acc, Fold, Kernel, LoopKind, Reduction, Scratch, Store
from fgrad.lower.render.python import PythonKernel
from fgrad.lower.render.together import Together
from fgrad.lower.render.walk import Views
from fgrad.trace.reference import evaluate
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Mode, Op
from tests.lower.render.kernels_by_hand import (
    elementwise,
    kernel,
    nest,
    param,
    prefix,
    product,
    reduction,
    scatter,
    softmax,
    sort,
)


def run(k: Kernel, *arrays: np.ndarray) -> list[np.ndarray]:
    """The buffers after a run; those that `arrays` do not give start as zeros."""
    buffers = [np.array(x).ravel() for x in arrays]
    buffers += [np.zeros(c.size, c.dtype.np) for c in k.buffers[len(buffers) :]]
    PythonKernel(k).run(buffers)
    return buffers


def judge(root: UOp, loads: Sequence[UOp], arrays: Sequence[np.ndarray]) -> np.ndarray:
    return evaluate([root], dict(zip(loads, arrays, strict=True)))[0]


def test_an_elementwise_kernel_stores_what_the_reference_says(rng: np.random.Generator) -> None:
    x, y = param(0, dt.float32, 5, 7), param(1, dt.float32, 7)
    root = b.where(
        b.lt(x, b.const(0.0, dt.float32, (5, 7))), b.exp(x), b.mul(x, b.broadcast_to(y, (5, 7)))
    )
    arrays = [rng.normal(size=u.shape).astype(np.float32) for u in (x, y)]
    out = run(elementwise(root, [x, y]), *arrays)[2]
    np.testing.assert_allclose(out.reshape(5, 7), judge(root, [x, y], arrays), rtol=1e-6)


def views_of(x: UOp) -> list[UOp]:
    """x: 4 x 6."""
    idx = b.sub(b.iota(9), b.const(1, dt.int64, (9,)))
    return [
        b.pad(x, ((1, 2, 0), (0, 1, 2))),
        b.flip(b.permute(x, (1, 0)), (0,)),
        b.shrink(x, ((None, 2, 1), (1, 2, 3)), (b.const(7, dt.int64),)),
        b.reshape(b.pad(x, ((0, 0, 0), (1, 1, 0))), (8, 4)),
        b.window(x, 1, 3, 2, 1),
        uop(Op.SKEW, (b.window(x, 1, 3, 1, 1),), (1, 2, 6, 4, 1, 1)),
        b.gather(x, idx),
        b.pad(b.gather(x, idx), ((2, 2, 0), (0, 0, 0))),
        b.expand(x, ((1, 3),)),
    ]


@pytest.mark.parametrize("number", range(9))
def test_views_reach_the_elements_that_the_reference_reaches(
    number: int, rng: np.random.Generator
) -> None:
    x = param(0, dt.float64, 4, 6)
    root = views_of(x)[number]
    array = rng.normal(size=x.shape)
    out = run(elementwise(root, [x]), array)[1]
    np.testing.assert_array_equal(out.reshape(root.shape), judge(root, [x], [array]))


@pytest.mark.parametrize(
    "dtype", [dt.bool_, dt.uint8, dt.int32, dt.float32, dt.bfloat16, dt.float16], ids=str
)
@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN])
def test_reductions_of_every_kind_of_dtype(dtype: DType, op: Op, rng: np.random.Generator) -> None:
    x = param(0, dtype, 3, 4, 5)
    root = b.reduce_(x, (0, 2), op)
    array = rng.integers(0, 3, x.shape).astype(dtype.np)
    out = run(reduction(root, [x]), array)[1]
    np.testing.assert_array_equal(out, judge(root, [x], [array]))


def test_rows_with_scratch_are_run_one_by_one(rng: np.random.Generator) -> None:
    x = param(0, dt.float32, 6, 37)
    array = rng.normal(size=x.shape).astype(np.float32)
    k = softmax(x)
    out = run(k, array)[1].reshape(x.shape)
    e = np.exp(array - array.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)
    together = Together(k, Views(k))
    assert sorted(together.chunk.values()) == [1, 37, 37, 37]


def test_a_running_sum_reads_its_accumulator_in_every_step(rng: np.random.Generator) -> None:
    x = param(0, dt.int32, 5, 9)
    array = rng.integers(-9, 9, x.shape).astype(np.int32)
    out = run(prefix(x), array)[1]
    np.testing.assert_array_equal(out.reshape(x.shape), np.cumsum(array, 1))


@pytest.mark.parametrize("dtype", [dt.float32, dt.float16, dt.int8], ids=str)
@pytest.mark.parametrize("mode", list(Mode), ids=lambda m: m.name)
def test_repeated_places_are_written_in_order(
    mode: Mode, dtype: DType, rng: np.random.Generator
) -> None:
    idx, value = param(0, dt.int32, 40), param(1, dtype, 40)
    at = rng.integers(-2, 9, 40).astype(np.int32)
    x = rng.integers(-4, 5, 40).astype(dtype.np)
    old = rng.integers(-4, 5, 7).astype(dtype.np)
    want = old.copy()
    for i, v in zip(at, x, strict=True):
        if 0 <= i < 7:
            both = [want[i : i + 1], np.asarray([v])]
            with np.errstate(all="ignore"):
                want[i] = {
                    Mode.SET: lambda o, n: n, Mode.ADD: np.add, Mode.MUL: np.multiply,
                    Mode.MIN: np.minimum, Mode.MAX: np.maximum,
                }[mode](*both)[0]  # fmt: skip
    out = run(scatter(7, idx, value, mode), at, x, old)[2]
    np.testing.assert_array_equal(out, want)


def test_sort_is_stable_and_carries_payloads() -> None:
    key, payload = param(0, dt.float32, 2, 5), param(1, dt.int32, 2, 5)
    keys = np.array([[3, np.nan, 0.0, -0.0, 3], [1, 0, -1, np.inf, -np.inf]], np.float32)
    out = run(sort(key, payload), keys, np.arange(10, dtype=np.int32))
    np.testing.assert_array_equal(out[3].reshape(2, 5), [[2, 3, 0, 4, 1], [9, 7, 6, 5, 8]])
    np.testing.assert_array_equal(out[2][:5], [0, 0, 3, 3, np.nan])


def test_a_matrix_product_takes_no_seconds(rng: np.random.Generator) -> None:
    k, _ = product(64, 64, 64)
    x, y = (rng.normal(size=(64, 64)).astype(np.float32) for _ in range(2))
    begin = time.perf_counter()
    out = run(k, x, y)[2]
    assert time.perf_counter() - begin < 1
    np.testing.assert_allclose(out.reshape(64, 64), x @ y, rtol=1e-4, atol=1e-4)


def test_writing_where_one_reads_elsewhere_is_done_in_order() -> None:
    """b[i + 1] += b[i], position by position."""
    ranges = Ranges()
    x = param(0, dt.int32, 8)
    (r,) = ranges.ranges((7,))
    value = b.add(b.shrink(x, ((0, 7, 1),)), b.shrink(x, ((1, 7, 1),)))
    k = kernel(ranges, [x], [], nest((r,), (7,), Store(0, (1, r[1]), value, (r,))))
    k.buffers = (type(k.buffers[0])(dt.int32, 8, True, True),)
    out = run(k, np.arange(8, dtype=np.int32))[0]
    np.testing.assert_array_equal(out, np.cumsum(np.arange(8)))


def shifted(ranges: Ranges, x: UOp, by: int) -> Kernel:
    """Stores x[i] at out[i + by]."""
    (r,) = ranges.ranges(x.shape)
    body = nest((r,), x.shape, Store(1, (by, r[1]), x, (r,)), kind=LoopKind.TASK)
    return kernel(ranges, [x], [x], body)


@pytest.mark.parametrize(("by", "index"), [(3, 5), (-1, -1)])
def test_a_store_out_of_bounds_names_kernel_buffer_index_and_limit(by: int, index: int) -> None:
    k = shifted(Ranges(), param(0, dt.float32, 5), by)
    with pytest.raises(
        BadAccessError, match=rf"kernel k writes element {index} of buffer 1, which has 5"
    ):
        run(k, np.zeros(5, np.float32))


def test_a_load_out_of_bounds_names_kernel_buffer_index_and_limit() -> None:
    ranges = Ranges()
    x = param(0, dt.float32, 5)
    (r,) = ranges.ranges((5,))
    k = kernel(ranges, [x], [x], nest((r,), (5,), Store(1, r, x, ((2, r[1]),))))
    with pytest.raises(
        BadAccessError, match=r"kernel k reads element 5 of buffer 0, which has 5 \(at r0=3\)"
    ):
        run(k, np.zeros(5, np.float32))


def test_a_load_where_its_condition_fails_is_no_access(rng: np.random.Generator) -> None:
    ranges = Ranges()
    x = param(0, dt.float32, 5)
    (r,) = ranges.ranges((5,))
    store = Store(1, r, x, ((2, r[1]),), ((r, 0, 3),))
    out = run(kernel(ranges, [x], [x], nest((r,), (5,), store)), np.arange(5, dtype=np.float32))[1]
    np.testing.assert_array_equal(out, [2, 3, 4, 0, 0])


def test_scratch_of_another_task_is_not_defined() -> None:
    k = softmax(param(0, dt.float32, 3, 4))
    task = k.body[0]
    swapped = (task.body[2], *task.body[:2])
    k.body = (type(task)(task.range, task.size, task.kind, swapped),)
    with pytest.raises(SpecError, match="needs <REDUCE"):
        run(k, np.zeros((3, 4), np.float32))
    k.scratch = (Scratch(dt.float32, 3),)
    k.body = (task,)
    with pytest.raises(BadAccessError, match="writes element 3 of scratch 0, which has 3"):
        run(k, np.zeros((3, 4), np.float32))


def test_buffers_of_another_size_or_dtype_are_refused() -> None:
    k = elementwise(b.exp(param(0, dt.float32, 4)), [param(0, dt.float32, 4)])
    with pytest.raises(BadAccessError, match="needs 4 elements of float32 as buffer 0"):
        run(k, np.zeros(3, np.float32))
    with pytest.raises(BadAccessError, match="2 buffers, got 1"):
        PythonKernel(k).run([np.zeros(4, np.float32)])


def test_a_store_to_a_buffer_that_is_only_read_is_refused() -> None:
    k = elementwise(param(0, dt.float32, 4), [param(0, dt.float32, 4)])
    k.buffers = (k.buffers[0], k.buffers[0])
    with pytest.raises(BadAccessError, match="stores to buffer 1, which it only reads"):
        run(k, np.zeros(4, np.float32))


def test_a_range_outside_its_loop_is_an_error() -> None:
    ranges = Ranges()
    x = param(0, dt.float32, 4)
    (r,) = ranges.ranges((4,))
    with pytest.raises(SpecError, match="uses range r0 outside its loop"):
        run(kernel(ranges, [x], [x], (Store(1, r, x, (r,)),)), np.zeros(4, np.float32))


def test_a_sum_over_a_range_its_value_does_not_use_counts_every_position() -> None:
    ranges = Ranges()
    x = param(0, dt.int32, 2)
    i, j = ranges.ranges((2, 5))
    root = b.reduce_(b.expand(x, ((1, 5),)), (1,))
    acc = Acc(root, Op.ADD)
    inner = Reduction((acc,), nest((j,), (5,), Fold(acc, x, (i,))))
    k = kernel(ranges, [x], [root], nest((i,), (2,), inner, Store(1, i, root, (i,))))
    np.testing.assert_array_equal(run(k, np.array([1, 3], np.int32))[1], [5, 15])


def test_buffers_that_are_one_memory_are_seen_as_one() -> None:
    """out[i + 1] = x[i] where out is x: position by position the first element spreads."""
    x = param(0, dt.float32, 5)
    ranges = Ranges()
    (r,) = ranges.ranges((4,))
    k = kernel(ranges, [x], [x], nest((r,), (4,), Store(1, (1, r[1]), x, (r,))))
    memory = np.arange(5, dtype=np.float32) + 7
    PythonKernel(k).run([memory, memory])
    np.testing.assert_array_equal(memory, [7] * 5)


def test_buffers_that_overlap_in_part_are_refused() -> None:
    x = param(0, dt.float32, 4)
    memory = np.zeros(6, np.float32)
    with pytest.raises(BadAccessError, match="buffers 0 and 1 overlap in part"):
        PythonKernel(elementwise(b.exp(x), [x])).run([memory[:4], memory[2:]])


def test_tasks_that_write_one_element_are_found() -> None:
    """out[i // 2] = x[i], a task for each i."""
    ranges = Ranges()
    x = param(0, dt.float32, 6)
    (r,) = ranges.ranges((6,))
    store = Store(1, ranges.div(r, 2), x, (r,))
    k = kernel(ranges, [x], [param(1, dt.float32, 3)], nest((r,), (6,), store, kind=LoopKind.TASK))
    with pytest.raises(
        BadAccessError, match=r"task \d writes element \d of buffer 1, which task \d w"
    ):
        run(k, np.zeros(6, np.float32))
    k.body = nest((r,), (6,), store)
    np.testing.assert_array_equal(run(k, np.arange(6, dtype=np.float32))[1], [1, 3, 5])


@pytest.mark.parametrize("by", [1, -1])
def test_tasks_that_read_what_others_write_are_found(by: int) -> None:
    """x[i] = x[i + by] in place, a task for each i."""
    ranges = Ranges()
    x = param(0, dt.float32, 6)
    (r,) = ranges.ranges((4,))
    store = Store(1, (1, r[1]), x, ((1 + by, r[1]),))
    k = kernel(ranges, [x], [x], nest((r,), (4,), store, kind=LoopKind.TASK))
    memory = np.zeros(6, np.float32)
    with pytest.raises(BadAccessError, match="tasks run in any order and at the same time"):
        PythonKernel(k).run([memory, memory])
    PythonKernel(k).run([memory, memory.copy()])


def test_a_load_from_a_buffer_that_is_only_written_is_refused() -> None:
    k = elementwise(param(0, dt.float32, 4), [param(0, dt.float32, 4)])
    k.buffers = (k.buffers[1], k.buffers[1])
    with pytest.raises(BadAccessError, match="reads buffer 0, which it only writes"):
        run(k, np.zeros(4, np.float32))
