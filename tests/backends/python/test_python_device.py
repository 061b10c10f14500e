"""The PYTHON device gives what the reference evaluator gives, and reports every wrong access."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from fgrad.backends.python.device import PythonDevice
from fgrad.config import config
from fgrad.errors import BadAccessError, CallbackFailedError, DeviceError
from fgrad.hw.device import get_device
from fgrad.lower.kernel import Kernel, Loop, Reduction, Store
from fgrad.trace.reference import run_program
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Cond, Host, Program, Scan, While, gets
from tests.backends.python.python_harness import NARROW, WIDE, call, compile_for, program_of, run
from tests.laws.programs import EVERY, Case, close_to, programs

F, I64, B = dt.float32, dt.int64, dt.bool_


def agree(program: Program, arrays: Sequence[Any], **options: Any) -> None:
    got = run(program, arrays, **options)
    want = run_program(
        program, [np.asarray(x, p.dtype.np) for x, p in zip(arrays, program.params, strict=True)]
    )
    for g, w in zip(got, want, strict=True):
        close_to(g, w)


@settings(max_examples=60)
@given(programs(max_nodes=14))
def test_random_programs_have_the_reference_s_values(case: Case) -> None:
    agree(*case)


@settings(max_examples=40)
@given(programs(max_nodes=12, dtypes=EVERY))
def test_random_programs_of_every_dtype(case: Case) -> None:
    agree(*case)


@settings(max_examples=40)
@given(programs(max_nodes=14))
def test_kernels_for_every_width_of_vectors_mean_the_same(case: Case) -> None:
    program, arrays = case
    narrow, wide = [call(compile_for(program, x), program, arrays) for x in (NARROW, WIDE)]
    for x, y in zip(narrow, wide, strict=True):
        close_to(x, y)


def matrix_product(x: UOp, y: UOp) -> UOp:
    a = b.expand(x, ((1, y.shape[1]),))
    c = b.expand(b.permute(y, (1, 0)), ((0, x.shape[0]),))
    return b.reduce_(uop(Op.MUL, (a, c)), (2,))


def test_a_contraction_with_an_epilogue(rng: np.random.Generator) -> None:
    p = program_of(
        lambda x, y: [uop(Op.TANH, (matrix_product(x, y),))], (F, (33, 20)), (F, (20, 50))
    )
    executable = compile_for(p, WIDE)
    assert "contract" in executable.text("kernels")
    arrays = [rng.normal(size=q.shape).astype(np.float32) for q in p.params]
    close_to(call(executable, p, arrays)[0], run_program(p, arrays)[0])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_scans_carry_and_stack(length: int, reverse: bool, rng: np.random.Generator) -> None:
    body = program_of(
        lambda c, h, k, x: [b.add(b.mul(h, c), x), b.add(k, 1), b.mul(h, x)],
        (F, (3,)), (F, (3,)), (I64, ()), (F, (3,)),
    )  # fmt: skip

    def f(c: UOp, h: UOp, x: UOp) -> list[UOp]:
        scan = Scan(body, length, 1, 2, 1, reverse)
        return gets(uop(Op.SCAN, (c, h, b.const(3, I64), x), scan))

    p = program_of(f, (F, (3,)), (F, (3,)), (F, (length, 3)))
    agree(p, [rng.normal(size=q.shape) for q in p.params])


def test_a_table_updated_in_a_loop() -> None:
    def step(table: UOp, i: UOp) -> list[UOp]:
        row = b.const(2.0, F, (1, 4))
        box = [(None, 1, 1), (0, 4, 1)]
        return [b.update(table, row, mode=Mode.ADD, box=box, starts=[i]), b.add(i, 1)]

    body = program_of(step, (F, (6, 4)), (I64, ()))
    p = program_of(
        lambda t: gets(uop(Op.SCAN, (t, b.const(0, I64)), Scan(body, 5, 0, 2, 0))), (F, (6, 4))
    )
    agree(p, [np.arange(24).reshape(6, 4)])
    agree(p, [np.arange(24).reshape(6, 4)], donated=frozenset({0}))


@pytest.mark.parametrize("limit", [0, 1, 4, 5])
def test_while_stops_when_its_condition_fails(limit: int) -> None:
    cond = program_of(lambda n, x, i: [b.lt(i, n)], (I64, ()), (F, (2,)), (I64, ()))
    body = program_of(lambda n, x, i: [b.mul(x, 2.0), b.add(i, 1)], (I64, ()), (F, (2,)), (I64, ()))

    def f(n: UOp, x: UOp) -> list[UOp]:
        return gets(uop(Op.WHILE, (n, x, b.const(0, I64)), While(cond, body, 1)))

    p = program_of(f, (I64, ()), (F, (2,)))
    agree(p, [limit, [1.0, -3.0]])
    agree(p, [limit, [1.0, -3.0]], inline=frozenset({0}))


@pytest.mark.parametrize("index", [-7, 0, 1, 2, 99])
def test_branches_are_chosen_by_the_clamped_index(index: int) -> None:
    branches = tuple([program_of(lambda x, k=k: [b.add(x, float(k))], (F, (3,))) for k in range(3)])
    p = program_of(
        lambda i, x: gets(uop(Op.COND, (i, x), Cond(branches))), (dt.int32, ()), (F, (3,))
    )
    agree(p, [index, [1.0, 2.0, 3.0]])


def host_program(callback: Any, *outs: Aval) -> Program:
    return program_of(
        lambda x: gets(uop(Op.HOST, (b.mul(x, 2.0),), Host(callback, outs, name="f"))), (F, (3,))
    )


def test_callbacks_get_arrays_and_give_arrays() -> None:
    p = host_program(lambda x: (x + 1, x.sum() > 0), Aval(F, (3,)), Aval(B, ()))
    agree(p, [[1.0, 2.0, 3.0]])


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (lambda x: 1 // 0, "callback inside test raised ZeroDivisionError"),
        (lambda x: (x, x), "declared 1 results and returned 2"),
        (lambda x: (x[:2],), r"returned shape \(2,\), declared was \(3,\)"),
    ],
)
def test_callbacks_that_fail_are_reported(callback: Any, message: str) -> None:
    with pytest.raises(CallbackFailedError, match=message):
        run(host_program(callback, Aval(F, (3,))), [[1.0, 2.0, 3.0]])


def test_a_callback_may_run_a_program_of_the_same_device() -> None:
    inner = program_of(lambda x: [b.mul(x, 3.0)], (F, (3,)))
    p = host_program(lambda x: (run(inner, [x])[0],), Aval(F, (3,)))
    np.testing.assert_array_equal(run(p, [[1.0, 2.0, 3.0]])[0], [6, 12, 18])


def test_threads_take_turns() -> None:
    p = program_of(lambda x: [b.gather(x, b.cast(x, I64))], (F, (8,)))
    executable = PythonDevice(0).compile(p, frozenset(), frozenset(), "test")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: call(executable, p, [np.arange(8)])[0], range(16)))
    for x in found:
        np.testing.assert_array_equal(x, np.arange(8))


def test_a_donated_parameter_holds_the_output() -> None:
    p = program_of(lambda x: [b.update(x, b.const(9.0, F, (2,)), box=[(1, 2, 1)])], (F, (5,)))
    with config.override(planner=True):
        executable = PythonDevice(0).compile(p, frozenset(), frozenset({0}), "test")
    assert executable.aliases == {0: 0}
    np.testing.assert_array_equal(call(executable, p, [np.arange(5)])[0], [0, 9, 9, 3, 4])


def moved(kernel: Kernel, by: int) -> None:
    """Shift the addresses of the kernel's stores."""

    def change(s: Any) -> Any:
        match s:
            case Store():
                address = (s.address[0] + by, s.address[1])
                return Store(s.buffer, address, s.value, s.index, s.conds, s.mode)
            case Loop():
                return Loop(s.range, s.size, s.kind, tuple(map(change, s.body)), s.unroll)
            case Reduction():
                return Reduction(s.accs, tuple(map(change, s.body)))
        return s

    kernel.body = tuple(map(change, kernel.body))


def test_an_index_out_of_bounds_is_reported_with_kernel_buffer_index_and_limit() -> None:
    p = program_of(lambda x: [b.exp(x)], (F, (100,)))
    executable = compile_for(p, WIDE)
    kernel = executable.lowered.kernels[0]
    moved(kernel, 7)
    with pytest.raises(
        BadAccessError, match=rf"kernel {kernel.name} writes element 100 of buffer 1, which has 100"
    ):
        call(executable, p, [np.zeros(100)])


def test_the_wrong_number_of_words_is_refused() -> None:
    p = program_of(lambda x: [b.exp(x)], (F, (2,)))
    with pytest.raises(DeviceError, match="takes 1 parameters and 1 outputs, got 1 words"):
        compile_for(p, WIDE).call([0])


def test_the_device_is_found_by_name_and_shows_its_stages() -> None:
    device = get_device("python")
    assert device is get_device("PYTHON") and device.name == "python"
    p = program_of(lambda x: [b.exp(x)], (F, (2,)))
    executable = device.compile(p, frozenset(), frozenset(), "test")
    assert executable.text("commands") == "EXEC " + executable.lowered.kernels[0].name
    assert "b0: float32[2] r" in executable.text("kernels")
    assert "define void @entry" in executable.text("llvm")
    assert "void entry(int64_t *t)" in executable.text("c")
    with pytest.raises(
        NotImplementedError, match="no stage 'asm'; choose kernels, llvm, commands or c"
    ):
        executable.text("asm")
    device.sync()


SHARED = {
    "a sum of rows and of columns": lambda x: [b.reduce_(x, (0,)), b.reduce_(x, (1,))],
    "a value stored and summed": lambda x: [b.exp(x), b.reduce_(b.exp(x), (0,))],
    "a sum of everything": lambda x: [b.reduce_(x, (0, 1))],
    "softmax": lambda x: [softmax(x, 1), softmax(x, 0)],
    "transposed": lambda x: [b.permute(x, (1, 0)), b.add(b.permute(x, (1, 0)), 1.0)],
    "running sums": lambda x: [uop(Op.PREFIX, (x,), (Op.ADD, k, k == 1)) for k in range(2)],
    "sorted": lambda x: gets(uop(Op.SORT, (x,), 0)),
}  # fmt: skip


def softmax(x: UOp, axis: int) -> UOp:
    e = b.exp(b.sub(x, b.spread(b.reduce_(x, (axis,), Op.MAX), x, (axis,))))
    return uop(Op.DIV, (e, b.spread(b.reduce_(e, (axis,)), x, (axis,))))


@pytest.mark.parametrize("what", SHARED)
@pytest.mark.parametrize("shape", [(70, 90), (520, 300)], ids=str)
def test_tasks_of_large_kernels_do_not_meet(
    what: str, shape: tuple[int, int], rng: np.random.Generator
) -> None:
    p = program_of(SHARED[what], (F, shape))
    x = rng.standard_normal(shape).astype(np.float32)
    got = call(compile_for(p, WIDE), p, [x])
    for g, w in zip(got, run_program(p, [x]), strict=True):
        close_to(g, w, slack=30)
