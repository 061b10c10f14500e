"""Builds and runs the kernels of one contraction with all around it, without the partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import micro_harness as mh
import numpy as np

from fgrad.lower import views
from fgrad.lower.contract_build import Built, Form, build, machine_of, micro_of
from fgrad.lower.contract_emit import CALLS_CONTRACT
from fgrad.lower.contract_find import Contraction, recognise
from fgrad.lower.generate import CALLS, Writer
from fgrad.lower.kernel import Buffer, Call, Kernel
from fgrad.lower.limits import Limits
from fgrad.uop.node import UOp, toposort
from fgrad.uop.op import Op

CALLS.update(CALLS_CONTRACT)


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


def kernels(outs: list[UOp], limits: Limits, inputs: Sequence[UOp]) -> Built:
    """The kernels of `outs` over `inputs`, which are in memory."""
    contraction = find(outs)
    assert contraction is not None, "not recognised"
    buffers = [Buffer(u.dtype, u.size, True, False) for u in inputs]
    buffers += [Buffer(o.dtype, o.size, False, True) for o in outs]
    stored = [(o, len(inputs) + i) for i, o in enumerate(outs)]
    return build("k", contraction, stored, buffers, {u: i for i, u in enumerate(inputs)}, limits)


def form_of(built: Built) -> Form:
    """The form of a built contraction."""
    call = built.kernel.body[0]
    assert isinstance(call, Call) and isinstance(call.operands[0], Form)
    return call.operands[0]


def text_of(kernel: Kernel, limits: Limits) -> str:
    """A module with the kernel as an external function `run`."""
    declarations: set[str] = set()
    helpers: dict[str, str] = {}
    text = Writer(kernel, "run", kernel.width, limits, declarations, helpers).text()
    head = "\n".join([*sorted(declarations), *helpers.values()])
    text = text.replace("define internal", "define", 1)
    return f"{head}\n{text}\n!0 = !{{i32 1}}\nattributes #0 = {{ nounwind }}\n"


def run(
    outs: list[UOp], contents: dict[UOp, np.ndarray], limits: Limits | None = None
) -> tuple[list[Any], Built, str]:
    """-> (results, kernels, their text). `contents`: arrays of the nodes that are in memory."""
    limits = limits or host_limits()
    built = kernels(outs, limits, list(contents))
    mh.provide(micro_of([built.kernel]), machine_of(limits))
    arrays = {u: np.ascontiguousarray(x).reshape(u.shape) for u, x in contents.items()}
    for o in outs:
        arrays[o] = np.empty(o.shape, o.dtype.np)
        arrays[o].reshape(-1).view(np.uint8)[...] = 255
    for u, x in arrays.items():
        assert x.shape == u.shape and x.dtype == u.dtype.np, (x.shape, x.dtype, u)
    packed, packed_at = mh.aligned(built.kernel.buffers[-1].size if built.pack else 0)
    texts = []
    for kernel, nodes in ((built.pack, list(contents)), (built.kernel, [*contents, *outs])):
        if kernel is None:
            continue
        _, size = kernel.scratch_offsets
        raw, scratch = mh.aligned(size + 64)
        words = [scratch, size, mh.address(mh.runtime), *[mh.address(arrays[u]) for u in nodes]]
        frame = np.array([*words, packed_at], np.int64)
        texts.append(text_of(kernel, limits))
        address = mh.compile_text(texts[-1], ["run"])["run"]
        call = mh.ffi.cast("void(*)(intptr_t, int64_t, int64_t)", address)
        for task in range(kernel.tasks):
            call(mh.address(frame), task, 0)
        del raw
    del packed
    return [arrays[o] for o in outs], built, "\n".join(texts)
