"""Runs lowered programs with llvmlite's own loader: a table, a serial pfor, host calls, and the
reference beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import cffi
import llvmlite.binding as llvm
import numpy as np

from fgrad.lower.abi import Runtime, Table
from fgrad.lower.contract_build import machine_of
from fgrad.lower.limits import Limits
from fgrad.lower.micro.slots import micro_ir
from fgrad.lower.pipeline import Lowered, lower
from fgrad.trace.reference import run_program
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp
from fgrad.uop.program import Host, Program, close

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
ffi = cffi.FFI()
_alive: list[Any] = []
_micro: dict[Any, list[tuple[int, int]]] = {}
runtime = np.zeros(512, np.int64)
ENTRY = "void(*)(intptr_t)"
TASK = "void(*)(intptr_t, int64_t, int64_t)"


@cache
def host_limits() -> Limits:
    """The machine the tests run on."""
    found = llvm.get_host_cpu_features()
    features = frozenset(k for k, on in found.items() if on)
    size = 64 if "avx512f" in features else 32 if "avx2" in features else 16
    return Limits(size, features, 2, 32 << 10, 1 << 20)


@cache
def target_machine(opt: int = 2) -> Any:
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=opt,
        reloc="pic", codemodel="jitdefault",
    )  # fmt: skip


def compile_text(text: str, names: Sequence[str], opt: int = 2) -> dict[str, int]:
    """Addresses of the functions of a module."""
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, target_machine(opt))
    engine.finalize_object()
    _alive.append(engine)
    return {n: engine.get_function_address(n) for n in names}


@ffi.callback("void(intptr_t, intptr_t, intptr_t, int64_t)")
def _pfor(rt: int, fn: int, frame: int, n: int) -> None:
    call = ffi.cast(TASK, fn)
    for i in reversed(range(n)):
        call(frame, i, i % 2)


_hosts: list[Host] = []


@ffi.callback("int64_t(int64_t, int64_t, intptr_t)")
def _host(handle: int, index: int, arguments: int) -> int:
    host, ins, outs = _hosts[index]  # type: ignore[misc]
    words = np.frombuffer(ffi.buffer(ffi.cast("char*", arguments), 8 * (len(ins) + len(outs))), np.int64)

    def array(word: int, aval: Any) -> Any:
        size = int(np.prod(aval[1])) * aval[0].itemsize
        if not size:
            return np.zeros(aval[1], aval[0].np)
        return np.frombuffer(ffi.buffer(ffi.cast("char*", word), size), aval[0].np).reshape(aval[1])

    arrays = [array(int(w), a) for w, a in zip(words, ins, strict=False)]
    first = int(host.ordered)
    results = [*arrays[:first], *host.callback(*arrays[first:])]
    for w, a, r in zip(words[len(ins) :], outs, results, strict=True):
        array(int(w), a)[...] = r
    return 0


def provide(lowered: Lowered, limits: Limits) -> None:
    """Fill the runtime table."""
    runtime[Runtime.PFOR] = int(ffi.cast("intptr_t", _pfor))
    runtime[Runtime.HOST] = int(ffi.cast("intptr_t", _host))
    machine = machine_of(limits)
    for key in lowered.micro:
        if (key, machine) not in _micro:
            text, functions = micro_ir(key, machine)
            found = compile_text(text, [n for n, _ in functions])
            _micro[key, machine] = [(slot, found[n]) for n, slot in functions]
        for slot, address in _micro[key, machine]:
            runtime[slot] = address


def address(x: np.ndarray[Any, Any]) -> int:
    return x.__array_interface__["data"][0]


def aligned(size: int, fill: int = 0xA5) -> np.ndarray[Any, Any]:
    """Bytes on a cache line, with a guard behind them."""
    raw = np.full(size + 192, fill, np.uint8)
    at = -address(raw) % 64
    return raw[at : at + size]


class Compiled:
    """A lowered program that can be called with arrays."""

    def __init__(self, program: Program, limits: Limits | None = None, opt: int = 2, **options: Any) -> None:
        self.program = program
        self.limits = limits or host_limits()
        self.options = options
        self.lowered = lower(program, self.limits, **options)
        self.entry = ffi.cast(ENTRY, compile_text(self.lowered.ir, ["entry"], opt)["entry"])

    def __call__(self, *arrays: Any) -> list[np.ndarray[Any, Any]]:
        provide(self.lowered, self.limits)
        program, low = self.program, self.lowered
        _hosts[:] = host_avals(low)
        ins = []
        for p, x in zip(program.params, arrays, strict=True):
            buffer = aligned(p.size * p.dtype.itemsize)
            buffer[:] = np.ascontiguousarray(np.asarray(x, p.dtype.np)).reshape(-1).view(np.uint8)
            ins.append(buffer)
        before = [b.copy() for b in ins]
        outs = []
        for j, o in enumerate(program.outs):
            n = o.size * o.dtype.itemsize
            outs.append(ins[low.aliases[j]] if j in low.aliases else aligned(n))
        scratch, arena, ctl = (
            aligned(low.scratch_bytes * 2 + 64),
            aligned(low.arena_bytes + 64),
            aligned(64, 0),
        )
        table = np.zeros(Table.ARGUMENTS + len(ins) + len(outs), np.int64)
        table[Table.CTL], table[Table.RUNTIME] = address(ctl), address(runtime)
        table[Table.SCRATCH], table[Table.ARENA] = address(scratch), address(arena)
        for i, x in enumerate([*ins, *outs]):
            table[Table.ARGUMENTS + i] = address(x)
            if i in self.options.get("inline", ()):
                word = np.zeros(8, np.uint8)
                word[: x.size] = x
                table[Table.ARGUMENTS + i] = word.view(np.int64)[0]
        self.entry(address(table))
        for i, (a, b) in enumerate(zip(ins, before, strict=True)):
            assert i in low.aliases.values() or (a == b).all(), f"parameter {i} was changed"
        guards = [*outs, scratch[-64:], arena[-64:]]
        for x in guards[: len(outs)]:
            tail = np.lib.stride_tricks.as_strided(x[-1:] if x.size else x, (65,), (1,))[1:] if x.size else x
            assert (tail == 0xA5).all(), "written behind an output"
        assert (guards[-1] == 0xA5).all() and (guards[-2] == 0xA5).all(), "written behind the arena"
        return [
            x[: o.size * o.dtype.itemsize].view(o.dtype.np).reshape(o.shape).copy()
            for x, o in zip(outs, program.outs, strict=True)
        ]


def host_avals(low: Lowered) -> list[Any]:
    """Each Host with the avals of its arguments and results."""
    return [
        (h, [(a.dtype, a.shape) for a in ins], [(a.dtype, a.shape) for a in h.out_avals])
        for h, ins in zip(low.hosts, low.host_avals, strict=True)
    ]


def agree(program: Program, arrays: Sequence[Any], scale: float = 1.0, **options: Any) -> Compiled:
    """Compile, run, compare with the reference; returns what was compiled."""
    compiled = Compiled(program, **options)
    got = compiled(*arrays)
    want = run_program(program, [np.asarray(a) for a in arrays])
    for j, (g, w) in enumerate(zip(got, want, strict=True)):
        compare(g, w, scale, f"output {j}: {program.outs[j]}\n{compiled.lowered.as_text()[:6000]}")
    return compiled


def tolerance(dtype: Any) -> float:
    if dtype.kind in "biu":
        return 0.0
    name = np.dtype(dtype).name
    return {
        "float64": 1e-12, "complex128": 1e-12, "float32": 3e-6, "complex64": 3e-6, "float16": 2e-3,
        "bfloat16": 1.6e-2, "float8_e4m3fn": 0.13, "float8_e5m2": 0.26, "float8_e3m4": 0.07,
        "float8_e4m3": 0.13, "float8_e4m3b11fnuz": 0.13, "float8_e4m3fnuz": 0.13, "float8_e5m2fnuz": 0.26,
    }[name]  # fmt: skip


def compare(got: Any, want: Any, scale: float, what: str) -> None:
    """Equal integers; floats within a few roundings of the largest value; equal NaNs and
    infinities.
    """
    assert got.shape == want.shape and got.dtype == want.dtype, (
        got.shape,
        want.shape,
        got.dtype,
        want.dtype,
    )
    tol = tolerance(want.dtype) * scale
    if tol == 0:
        assert (got == want).all(), f"{what}\n{got}\n{want}"
        return
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        g, w = got.astype(wide), want.astype(wide)
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        error = np.abs(g - w)
        finite = np.abs(w[np.isfinite(w)])
        big = finite.max() if finite.size else 0.0
        ok = same | (error <= tol * (np.abs(w) + 0.05 * min(big, 1e30)))
    assert ok.all(), f"{what}\ngot  {g[~ok][:8]}\nwant {w[~ok][:8]}"


def program_of(f: Any, *avals: tuple[Any, tuple[int, ...]]) -> Program:
    """The program of a function of nodes."""
    from fgrad.uop.node import open_param

    params = [open_param(d, s) for d, s in avals]
    outs = f(*params)
    return close(params, outs if isinstance(outs, list | tuple) else [outs])


def sample(rng: np.random.Generator, dtype: dt.DType, shape: tuple[int, ...]) -> Any:
    """Random contents."""
    if dtype is dt.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_int:
        lo, hi = dt.int_range(dtype)
        return rng.integers(max(lo, -50), min(hi, 50), shape).astype(dtype.np)
    x = rng.standard_normal(shape)
    if dtype.is_complex:
        x = x + 1j * rng.standard_normal(shape)
    return np.asarray(x).astype(dtype.np)


__all__ = ["Compiled", "UOp", "agree", "compare", "program_of", "sample"]
