"""Builds and runs the kernels of one contraction with everything around it, without the partition."""

from __future__ import annotations

from collections import Counter
from typing import Any

import llvmlite.binding as llvm
import micro_harness as mh
import numpy as np

from fgrad.lower import generate, views
from fgrad.lower.contract import Built, Contraction, Form, build, machine_of, micro_of, recognise
from fgrad.lower.contract_emit import CALLS_CONTRACT
from fgrad.lower.generate import CALLS, Writer
from fgrad.lower.kernel import Buffer, Call, Kernel
from fgrad.lower.limits import Limits
from fgrad.uop.node import UOp, toposort
from fgrad.uop.op import Op

CALLS.update(CALLS_CONTRACT)
generate.FRAME_HEAD = max(generate.FRAME_HEAD, 3)


def host_limits() -> Limits:
    """Limits of the machine the tests run on."""
    machine = mh.host_machine()
    names = ("fma", "f16c", "avx2", "avx512f")
    features = llvm.get_host_cpu_features()
    return Limits(machine.vector, frozenset(n for n in names if features.get(n)))


def find(outs: list[UOp]) -> Contraction | None:
    """The contraction that the outputs are made of, if one is recognised."""
    nodes = toposort(outs)
    uses: Counter[UOp] = Counter()
    for u in nodes:
        for s in set(u.src):
            uses[s] += 1

    def source(u: UOp) -> UOp:
        while u.op in views.VIEWS:
            u = u.src[0]
        return u

    consumers: Counter[UOp] = Counter()
    for u in nodes:
        if u.op not in views.VIEWS:
            for s in {source(s) for s in u.src}:
                consumers[s] += 1
    for o in outs:
        consumers[source(o)] += 1
    for u in reversed(nodes):
        if u.op is Op.REDUCE:
            found = recognise(u, lambda x: consumers[x] == 1)
            if found is not None:
                return found
    return None


def kernels(
    outs: list[UOp], limits: Limits, stored: tuple[UOp, ...] = ()
) -> tuple[Built, list[UOp]]:
    """The kernels of `outs`; `stored` nodes below are read from memory like parameters."""
    contraction = find(outs)
    assert contraction is not None, "not recognised"
    inputs: list[UOp] = [u for u in toposort(outs) if u.op is Op.PARAM and u not in stored] + list(
        stored
    )
    buffers = [Buffer(u.dtype, u.size, True, False) for u in inputs] + [
        Buffer(o.dtype, o.size, False, True) for o in outs
    ]
    pairs = [(o, len(inputs) + i) for i, o in enumerate(outs)]
    built = build(
        "k", contraction, pairs, tuple(buffers), {u: i for i, u in enumerate(inputs)}, limits
    )
    return built, inputs


def form_of(built: Built) -> Form:
    """The form of a built contraction."""
    call = built.kernel.body[0]
    assert isinstance(call, Call) and isinstance(call.operands[0], Form)
    return call.operands[0]


def text_of(kernel: Kernel, limits: Limits) -> str:
    """A module with the kernel as an external function `run`."""
    declarations: set[str] = set()
    helpers: dict[str, str] = {}
    width = limits.vector_bytes // form_of(Built(kernel, None)).element.size
    text = (
        Writer(kernel, "run", width, limits, declarations, helpers)
        .text()
        .replace("define internal", "define", 1)
    )
    head = "\n".join([*sorted(declarations), *helpers.values()])
    return f"{head}\n{text}\n!0 = !{{i32 1}}\nattributes #0 = {{ nounwind }}\n"


def run(
    outs: list[UOp],
    arrays: list[np.ndarray],
    limits: Limits | None = None,
    stored: tuple[UOp, ...] = (),
) -> tuple[list[Any], Form, str]:
    """-> (results, form, text of the kernel). `arrays` in the order of the inputs that `kernels` gives."""
    limits = limits or host_limits()
    built, inputs = kernels(outs, limits, stored)
    mh.provide(micro_of([built.kernel]), machine_of(limits))
    holders = [np.ascontiguousarray(a).reshape(a.shape) for a in arrays]
    for u, a in zip(inputs, holders, strict=True):
        assert a.shape == u.shape and a.dtype == u.dtype.np, (a.shape, a.dtype, u)
    results = [np.zeros(o.shape, o.dtype.np) for o in outs]
    for r in results:
        r.view(np.uint8).reshape(-1)[...] = 255 if r.ndim else 255
    pointers = [mh.address(a) for a in (*holders, *results)]
    keep: list[Any] = []
    texts = []
    packed = 0
    for kernel in (built.pack, built.kernel):
        if kernel is None:
            continue
        if len(kernel.buffers) > len(pointers) and not packed:
            raw, packed = mh.aligned(kernel.buffers[-1].size)
            keep.append(raw)
        _, size = kernel.scratch_offsets
        raw, scratch = mh.aligned(size + 64)
        words = [scratch, size, mh.address(mh.runtime), *pointers] + ([packed] if packed else [])
        frame = np.array(words, np.int64)
        text = text_of(kernel, limits)
        texts.append(text)
        address = mh.compile_text(text, ["run"])["run"]
        call = mh.ffi.cast("void(*)(intptr_t, int64_t, int64_t)", address)
        for task in range(kernel.tasks):
            call(mh.address(frame), task, 0)
    return results, form_of(built), "\n".join(texts)
