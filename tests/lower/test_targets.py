"""No op, on any dtype and instruction set, becomes a call of something that is not there."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import llvmlite.binding as llvm
import pytest

from fgrad.errors import DtypeError
from fgrad.lower.limits import Limits
from fgrad.lower.pipeline import lower
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import BINARY, UNARY, Op
from fgrad.uop.program import Program
from tests.lower.harness import program_of

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
TARGETS = {
    "x86-64-v2": (X86, "x86-64-v2", Limits(16)),
    "haswell": (X86, "haswell", Limits(32, frozenset({"fma", "f16c", "avx2"}))),
    "skylake-avx512": (X86, "skylake-avx512", Limits(64, frozenset({"fma", "f16c", "avx512f"}))),
    "sapphirerapids": (X86, "sapphirerapids", Limits(64, frozenset({"fma", "f16c", "avx512f"}))),
    "aarch64": (ARM, "generic", Limits(16, frozenset({"neon"}))),
}


def every_op(dtype: DType) -> Program:
    """All elementwise ops that the dtype has, all casts from it, a reduction, a gather, a sort."""

    def outs(x: UOp, i: UOp) -> Iterator[UOp]:
        y = b.flip(x, (0,))
        for op in (*UNARY, *BINARY):
            if op is not Op.CAST:
                try:
                    yield uop(op, (x,) if op in UNARY else (x, y))
                except DtypeError:
                    continue
        for other in dt.ALL:
            yield b.cast(x, other)
        yield b.gather(x, i)
        yield b.reduce_(x, (0,), Op.MUL)
        if not dtype.is_complex:
            yield uop(Op.PREFIX, (x,), (Op.MAX, 0, False))
            yield b.permute(b.reshape(b.pad(x, [(0, 27, 0)]), (8, 8)), (1, 0))
        yield uop(Op.GET, (uop(Op.SORT, (x,), 0),), 0)

    return program_of(lambda x, i: list(outs(x, i)), (dtype, (37,)), (dt.int64, (5,)))


def undefined_symbols(obj: bytes) -> list[str]:
    """Names that an ELF object leaves to a linker."""
    (sections_at,) = struct.unpack_from("<Q", obj, 40)
    size, count = struct.unpack_from("<HH", obj, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", obj, sections_at + i * size) for i in range(count)]
    names = []
    for h in headers:
        if h[1] != 2:  # SHT_SYMTAB
            continue
        strings = headers[h[6]][4]
        for at in range(h[4] + 24, h[4] + h[5], 24):
            name, _, _, section = struct.unpack_from("<IBBH", obj, at)
            if section == 0:
                start = strings + name
                names.append(obj[start : obj.index(b"\0", start)].decode())
    return [n for n in names if n != "_GLOBAL_OFFSET_TABLE_"]


@pytest.mark.parametrize("target", list(TARGETS))
@pytest.mark.parametrize("dtype", dt.ALL, ids=str)
def test_code_stands_alone(dtype: DType, target: str) -> None:
    triple, cpu, limits = TARGETS[target]
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=0, reloc="pic", codemodel="small")
    module = llvm.parse_assembly(lower(every_op(dtype), limits).ir)
    module.triple = triple
    module.verify()
    assert undefined_symbols(machine.emit_object(module)) == []
