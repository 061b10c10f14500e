"""Compiles micro-kernels with llvmlite's own loader and runs plans on NumPy arrays, one unit after
the other."""

from __future__ import annotations

from functools import cache
from typing import Any

import cffi
import llvmlite.binding as llvm
import numpy as np

from fgrad.lower.micro.driver import Pack
from fgrad.lower.micro.machine import Element, Machine
from fgrad.lower.micro.plan import Access, Plan, make_plan
from fgrad.lower.micro.slots import GEMM, GEMV, PACK_B, Micro, micro_ir

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
ffi = cffi.FFI()
NUMPY = {
    Element.F32: np.float32,
    Element.F64: np.float64,
    Element.I32: np.int32,
    Element.I64: np.int64,
}
_engines: list[Any] = []
runtime = np.zeros(512, np.int64)
_addresses: dict[tuple[Micro, Machine], list[tuple[int, int]]] = {}


def host_machine() -> Machine:
    """The machine the tests run on."""
    features = llvm.get_host_cpu_features()
    vector = 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
    return Machine(
        vector=vector,
        fma=bool(features.get("fma")) or llvm.get_process_triple().startswith("aarch64"),
    )


@cache
def target_machine() -> Any:
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="jitdefault",
    )


def compile_text(text: str, names: list[str]) -> dict[str, int]:
    """Addresses of the functions of a module."""
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, target_machine())
    engine.finalize_object()
    _engines.append(engine)
    return {n: engine.get_function_address(n) for n in names}


def provide(micro: tuple[Micro, ...], machine: Machine) -> None:
    """Put the functions of these modules into the runtime table (of one machine at a time)."""
    for key in micro:
        if (key, machine) not in _addresses:
            text, entries = micro_ir(key, machine)
            found = compile_text(text, [n for n, _ in entries])
            _addresses[key, machine] = [(slot, found[name]) for name, slot in entries]
        for slot, at in _addresses[key, machine]:
            runtime[slot] = at


def address(x: np.ndarray) -> int:
    return int(x.__array_interface__["data"][0])


def aligned(n: int) -> tuple[np.ndarray, int]:
    raw = np.empty(n + 128, np.uint8)
    raw.fill(255)  # NaNs: what is not written must not matter
    return raw, (address(raw) + 63) & ~63


@cache
def store_epilogue(element: Element, width: int, n: int) -> int:
    """An epilogue that stores rows of a tile to t[0] + batch * t[1] with row stride t[2] and column
    stride t[3]."""
    kind = element.llvm
    text = f"""
define void @epilogue(ptr %t, ptr %tile, i64 %first, i64 %rows, i64 %j, i64 %batch) {{
entry:
  %out = load ptr, ptr %t
  %p1 = getelementptr i64, ptr %t, i64 1
  %p2 = getelementptr i64, ptr %t, i64 2
  %p3 = getelementptr i64, ptr %t, i64 3
  %bs = load i64, ptr %p1
  %rs = load i64, ptr %p2
  %cs = load i64, ptr %p3
  %j0 = mul i64 %j, {width}
  %left = sub i64 {n}, %j0
  %short = icmp slt i64 %left, {width}
  %columns = select i1 %short, i64 %left, i64 {width}
  %b = mul i64 %batch, %bs
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %rn, %next ]
  br label %column
column:
  %c = phi i64 [ 0, %row ], [ %cn, %column ]
  %ti0 = mul i64 %r, {width}
  %ti = add i64 %ti0, %c
  %tp = getelementptr {kind}, ptr %tile, i64 %ti
  %x = load {kind}, ptr %tp
  %m = add i64 %first, %r
  %o1 = mul i64 %m, %rs
  %nn = add i64 %j0, %c
  %o2 = mul i64 %nn, %cs
  %o3 = add i64 %o1, %o2
  %o4 = add i64 %o3, %b
  %op = getelementptr {kind}, ptr %out, i64 %o4
  store {kind} %x, ptr %op
  %cn = add i64 %c, 1
  %cc = icmp slt i64 %cn, %columns
  br i1 %cc, label %column, label %next
next:
  %rn = add i64 %r, 1
  %rc = icmp slt i64 %rn, %rows
  br i1 %rc, label %row, label %done
done:
  ret void
}}
"""
    return compile_text(text, ["epilogue"])["epilogue"]


def call(slot: int, signature: str, *args: int) -> None:
    ffi.cast(signature, int(runtime[slot]))(*args)


def signature_of(kinds: str) -> str:
    """The C type of a function of pointers (p) and integers (i)."""
    return f"void(*)({', '.join(['intptr_t' if k == 'p' else 'int64_t' for k in kinds])})"


class Run:
    """A prepared product of strided arrays a[.., m, k] and b[.., k, n]."""

    def __init__(
        self,
        machine: Machine,
        a: np.ndarray,
        b: np.ndarray,
        straight: bool = True,
        turned: bool = False,
    ) -> None:
        element = next(e for e, d in NUMPY.items() if a.dtype == d)
        batch = a.shape[0] if a.ndim == 3 else 1
        (m, k), n, size = a.shape[-2:], b.shape[-1], a.itemsize
        self.a, self.b = a, b
        store = np.zeros((batch, n, m) if turned else (batch, m, n), a.dtype)
        store.view(np.uint8).fill(255)
        self.out = store.swapaxes(1, 2) if turned else store
        self.batches = [(x.strides[0] if x.ndim == 3 else 0) for x in (a, b)]
        self.plan: Plan = make_plan(
            machine,
            element,
            batch,
            m,
            n,
            k,
            Access(a.strides[-2] // size, a.strides[-1] // size),
            Access(b.strides[-1] // size, b.strides[-2] // size),
            n if straight and not turned else 0,
        )
        provide(self.plan.micro, machine)
        self.words = np.array(self.plan.words, np.int64)
        os = [s // size for s in self.out.strides]
        self.t = np.array([address(store), os[0], os[1], os[2]], np.int64)
        self.scratch, self.scratch_at = aligned(self.plan.scratch)
        self.packed, self.packed_at = aligned(self.plan.packed)
        self.epilogue = store_epilogue(element, self.plan.width, n)

    def __call__(self) -> np.ndarray:
        plan, d, rt, t = self.plan, address(self.words), address(runtime), address(self.t)
        if plan.packed:
            signature = signature_of("pppppiippii")
            panels = -(-plan.columns // plan.width)
            for j in range(0, panels, plan.pack_panels):
                stop = min(panels, j + plan.pack_panels)
                call(
                    PACK_B,
                    signature,
                    d,
                    rt,
                    t,
                    address(self.b),
                    self.packed_at,
                    j,
                    stop,
                    self.scratch_at,
                    0,
                    int(plan.pack_mode),
                    0,
                )
        for entry in range(plan.batch):
            a, b = [
                address(x) + entry * s for x, s in zip((self.a, self.b), self.batches, strict=True)
            ]
            c = int(self.t[0]) + entry * self.out.strides[0]
            if plan.packed:
                b = self.packed_at
            for unit in range(plan.units):
                if plan.vector_form:
                    if plan.line_at is not None:  # what a generated function does in a program
                        line = np.ascontiguousarray(self.a[entry] if self.a.ndim == 3 else self.a)
                        a = self.scratch_at + plan.line_at
                        ffi.memmove(ffi.cast("void *", a), ffi.from_buffer(line), line.nbytes)
                    call(
                        GEMV,
                        signature_of("pppppiipp"),
                        d,
                        rt,
                        t,
                        a,
                        b,
                        unit,
                        entry,
                        self.scratch_at,
                        self.epilogue,
                    )
                else:
                    call(
                        GEMM,
                        signature_of("ppppppiipppp"),
                        d,
                        rt,
                        t,
                        a,
                        b,
                        c,
                        unit,
                        entry,
                        self.scratch_at,
                        self.epilogue,
                        0,
                        0,
                    )
        return self.out


__all__ = ["NUMPY", "Pack", "Run", "host_machine"]
