"""Compiled functions give the bits of the NumPy machine."""

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from fgrad.lower.functions.llvm_helper import helper
from fgrad.lower.functions.llvm_machine import LlvmMachine
from fgrad.lower.functions.numpy_machine import NumpyMachine
from fgrad.lower.functions.table import FUNCTIONS

NAMES = ["exp", "log", "sin", "tanh", "erf", "pow", "lgamma", "cbrt", "atan2"]


class Compiled:
    """A loop over arrays around one LLVM function."""

    def __init__(self, definition: str, symbol: str, vector: str, lanes: int, arity: int) -> None:
        element = vector if lanes == 1 else vector.strip("<>").split(" x ")[1]
        pointers = "".join(f"ptr %p{i}, " for i in range(arity))
        body = []
        for i in range(arity):
            body += [
                f"  %q{i} = getelementptr {element}, ptr %p{i}, i64 %i",
                f"  %a{i} = load {vector}, ptr %q{i}, align 4",
            ]
        arguments = ", ".join(f"{vector} %a{i}" for i in range(arity))
        lines = [
            f"define void @loop({pointers}ptr %out, i64 %n) {{",
            "entry:",
            "  br label %next",
            "next:",
            "  %i = phi i64 [0, %entry], [%j, %next]",
            *body,
            f"  %y = call {vector} {symbol}({arguments})",
            f"  %q = getelementptr {element}, ptr %out, i64 %i",
            f"  store {vector} %y, ptr %q, align 4",
            f"  %j = add i64 %i, {lanes}",
            "  %more = icmp ult i64 %j, %n",
            "  br i1 %more, label %next, label %end",
            "end:",
            "  ret void",
            "}",
        ]
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
        )
        module = llvm.parse_assembly("\n".join([definition, *lines]))
        module.verify()
        self.engine = llvm.create_mcjit_compiler(module, target)
        self.engine.finalize_object()
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)
        self.entry = kind(self.engine.get_function_address("loop"))

    def __call__(self, *xs: Any) -> Any:
        out = np.empty_like(xs[0])
        self.entry(*(q.ctypes.data for q in (*xs, out)), len(out))
        return out


def drawn(name: str, dtype: Any, operands: Callable[..., list[Any]]) -> list[Any]:
    """Sampled and special operands, a multiple of 64 of them."""
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -5e-324, 3e38, -1e308, 0.5]
    with np.errstate(over="ignore"):
        tail = np.array(special, np.float64).astype(dtype)
    xs = [np.concatenate([q, np.roll(tail, i)]) for i, q in enumerate(operands(name, dtype, 1000))]
    return [np.ascontiguousarray(np.resize(q, -(-len(q) // 64) * 64)) for q in xs]


def assert_same_bits(name: str, xs: list[Any], got: Any, expected: Any) -> None:
    same = (np.isnan(got) & np.isnan(expected)) | (
        (got == expected) & (np.signbit(got) == np.signbit(expected))
    )
    for i in np.flatnonzero(~same):
        pytest.fail(f"{name}({[q[i] for q in xs]}): {got[i]!r} compiled, {expected[i]!r} in NumPy")


@pytest.mark.parametrize(("dtype", "lanes"), [(np.float32, 16), (np.float64, 4), (np.float64, 1)])
@pytest.mark.parametrize("name", NAMES)
def test_a_helper_gives_the_bits_of_numpy(
    name: str, dtype: Any, lanes: int, operands: Callable[..., list[Any]]
) -> None:
    made = helper(name, lanes, NumpyMachine(dtype).p)
    definition = "\n".join([made.text, *made.declarations])
    arity = FUNCTIONS[name].arity
    compiled = Compiled(definition, made.name, made.type, lanes, arity)
    xs = drawn(name, dtype, operands)
    assert_same_bits(name, xs, compiled(*xs), FUNCTIONS[name](NumpyMachine(dtype), *xs))


def in_line(name: str, lanes: int, p: int) -> tuple[str, str, str]:
    """Name, vector type and definition of a function without a branch, by a plain emitter."""
    lines: list[str] = []
    names: dict[str, str] = {}

    def emit(text: str, *operands: str) -> str:
        assert all(operand in text for operand in operands)
        if text not in names:
            names[text] = f"%t{len(lines)}"
            lines.append(f"  {names[text]} = {text}")
        return names[text]

    machine = LlvmMachine(emit, lanes, p)
    arguments = [f"%x{i}" for i in range(FUNCTIONS[name].arity)]
    result = FUNCTIONS[name](machine, *arguments)
    t = machine.float_type
    parameters = ", ".join(f"{t} {a}" for a in arguments)
    text = [f"define internal {t} @f({parameters}) {{", *lines, f"  ret {t} {result}", "}"]
    return "@f", t, "\n".join([*text, *machine.declarations])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["sin", "digamma"])
def test_code_without_a_branch_gives_the_bits_of_numpy(
    name: str, dtype: Any, operands: Callable[..., list[Any]]
) -> None:
    symbol, vector, definition = in_line(name, 8, NumpyMachine(dtype).p)
    compiled = Compiled(definition, symbol, vector, 8, FUNCTIONS[name].arity)
    xs = drawn(name, dtype, operands)
    assert_same_bits(name, xs, compiled(*xs), FUNCTIONS[name](NumpyMachine(dtype), *xs))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["exp", "log1p", "sin", "cosh", "hypot"])
def test_a_target_without_fma_gives_the_same_bits(
    name: str, dtype: Any, operands: Callable[..., list[Any]]
) -> None:
    made = helper(name, 4, NumpyMachine(dtype).p, fma=False)
    definition = "\n".join([made.text, *made.declarations])
    assert "llvm.fma" not in definition
    compiled = Compiled(definition, made.name, made.type, 4, FUNCTIONS[name].arity)
    xs = drawn(name, dtype, operands)
    assert_same_bits(name, xs, compiled(*xs), FUNCTIONS[name](NumpyMachine(dtype), *xs))


def test_constants_outside_the_range_become_infinite() -> None:
    machine = LlvmMachine(lambda text, *operands: text, lanes=1, p=24)
    assert machine.const(1e300) == machine.const(float("inf")) == "0x7FF0000000000000"
    assert machine.const(0.1) == machine.const(float(np.float32(0.1)))
    assert machine.int_const(0x80000000) == "-2147483648"
