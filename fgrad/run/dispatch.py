"""Dispatcher: from the arguments of a call to the executable of their signature, and one native call.

This is the general path: pytrees flattened by optree, a dictionary over (structure, avals, static values). `wrapper.py`
generates the short path for signatures that were seen.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad.config import config
from fgrad.errors import DonatedError, LeakedTracerError
from fgrad.hw.device import get_device
from fgrad.run.array import DeviceArray, Sig, donate, from_host, sig_of
from fgrad.run.compile import compiled
from fgrad.trace import tree
from fgrad.trace.stage import Stage, check_leaks, lift_buffers
from fgrad.trace.staging import trace
from fgrad.trace.tracer import Tracer, is_scalar
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.node import paused_gc
from fgrad.uop.program import Program

_WEAK_SCALARS = {int: dt.int64, bool: dt.bool_}


def scalar_aval(x: Any) -> Aval:
    """The aval of a Python or NumPy scalar."""
    if isinstance(x, np.generic):
        return Aval(dt.to_dtype(x.dtype), ())
    if isinstance(x, bool):
        return Aval(dt.bool_, ())
    if isinstance(x, int):
        return Aval(dt.int64, (), True)
    return Aval(dt.default_float() if isinstance(x, float) else dt.default_complex(), (), True)


def scalar_word(x: Any, dtype: dt.DType) -> int:
    """The bits of a scalar as a table word."""
    if dtype is dt.int64 and not -(1 << 63) <= x < 1 << 63:
        raise OverflowError(f"the integer {x} does not fit in int64; pass it as numpy.uint64")
    return int.from_bytes(np.asarray(x).astype(dtype.np).tobytes(), "little")


@dataclass(slots=True)
class Entry:
    """One compiled signature of one function."""

    program: Program
    executable: Any
    captured: list[DeviceArray]
    out_tree: tree.TreeDef
    out_sigs: list[Sig]
    avals: list[Aval]
    donated: frozenset[int]
    statics: Any
    leaf_sigs: list[Sig | None]


class Dispatcher:
    """The compiled signatures of one function of dynamic leaves.

    make     given static values, the Python function to trace; called on a miss only
    name     for error messages and kernels
    """

    def __init__(self, make: Callable[[Any], Callable[..., Any]], name: str, limit: int = 4096) -> None:
        self.make = make
        self.name = name
        self.limit = limit
        self.entries: dict[Any, Entry] = {}
        self.compilations = 0

    def concrete_leaves(self, leaves: list[Any], in_tree: tree.TreeDef) -> list[Any]:
        """Leaves as DeviceArrays, Python numbers and NumPy scalars; host arrays are copied now."""
        out = []
        for i, x in enumerate(leaves):
            if type(x) is DeviceArray or is_scalar(x):
                out.append(from_host(np.asarray(x)) if type(x) is np.complex128 else x)
            elif isinstance(x, Tracer):
                raise LeakedTracerError(
                    f"{tree.path_of(in_tree, i, 'arguments')} of {self.name} is a tracer ({x.aval}) of a trace that has "
                    "ended; return the value from the traced function instead of storing it outside"
                )
            elif isinstance(x, DeviceArray):
                out.append(x)
            elif isinstance(x, np.ndarray):
                out.append(from_host(x))
            elif hasattr(x, "__fgrad_array__"):
                out.append(x.__fgrad_array__())
            elif hasattr(x, "__array__") and not isinstance(x, type):
                out.append(from_host(np.asarray(x)))
            else:
                raise TypeError(
                    f"{self.name} takes arrays and numbers (in any pytree), but "
                    f"{tree.path_of(in_tree, i, 'arguments')} is {x!r} of type {type(x).__name__}; mark it static "
                    "if it is a Python value that the function branches on"
                )
        return out

    def entry(self, leaves: Sequence[Any], in_tree: tree.TreeDef, statics: Any, donated: frozenset[int]) -> Entry:
        """The entry for these concrete leaves, compiled now if it is new."""
        kinds = tuple([x.sig if isinstance(x, DeviceArray) else scalar_aval(x) for x in leaves])
        key = (in_tree, kinds, statics, donated, config.enable_x64)
        entry = self.entries.get(key)
        if entry is None:
            entry = self.compile(leaves, in_tree, statics, donated)
            while len(self.entries) >= self.limit:
                self.entries.pop(next(iter(self.entries)), None)
            self.entries[key] = entry
        return entry

    def trace(
        self, avals: Sequence[Aval], in_tree: tree.TreeDef, statics: Any
    ) -> tuple[Program, list[Any], tree.TreeDef, list[bool]]:
        """-> (program, captured arrays, output structure, output weakness)."""
        with paused_gc():
            traced = trace(self.make(statics), in_tree, avals, Stage(f"jit({self.name})"))
            buffers, program = lift_buffers(traced.params, traced.outs)
            check_leaks(program.outs, self.name)
        return program, [b.arg.owner for b in buffers], traced.out_tree, traced.weak

    def compile(self, leaves: Sequence[Any], in_tree: tree.TreeDef, statics: Any, donated: frozenset[int]) -> Entry:
        """Trace and compile for these leaves."""
        self.compilations += 1
        device = next((x.sig.device for x in leaves if isinstance(x, DeviceArray)), None) or get_device()
        for i, x in enumerate(leaves):
            if isinstance(x, DeviceArray) and x.sig.device is not device:
                raise ValueError(
                    f"{self.name} got arrays on {device.name} and on {x.sig.device.name} "
                    f"({tree.path_of(in_tree, i, 'arguments')}); move one with device_put"
                )
        avals = [x.sig.aval if isinstance(x, DeviceArray) else scalar_aval(x) for x in leaves]
        inline = frozenset([i for i, x in enumerate(leaves) if not isinstance(x, DeviceArray)])
        program, captured, out_tree, weak = self.trace(avals, in_tree, statics)
        executable = compiled(program, device.name, inline, donated, self.name)
        sigs = [sig_of(Aval(o.dtype, o.shape, w), device) for o, w in zip(program.outs, weak, strict=True)]
        leaf_sigs = [x.sig if isinstance(x, DeviceArray) else None for x in leaves]
        return Entry(program, executable, captured, out_tree, sigs, avals, donated, statics, leaf_sigs)

    def call(self, leaves: list[Any], in_tree: tree.TreeDef, statics: Any, donated: frozenset[int] = frozenset()) -> Any:
        """Run the function on `leaves`."""
        leaves = self.concrete_leaves(leaves, in_tree)
        entry = self.entry(leaves, in_tree, statics, donated)
        return self.run(entry, leaves)

    def run(self, entry: Entry, leaves: Sequence[Any]) -> Any:
        """One native call on concrete leaves."""
        words = []
        for x, aval in zip(leaves, entry.avals, strict=True):
            words.append(x.addr if isinstance(x, DeviceArray) else scalar_word(x, aval.dtype))
        for a in entry.captured:
            if a.is_deleted():
                raise DonatedError(f"{self.name} uses an array that was donated to {a.sig.by}")
            words.append(a.addr)
        aliases = entry.executable.aliases
        outs = [
            DeviceArray(s, leaves[aliases[i]].addr if i in aliases else s.take())
            for i, s in enumerate(entry.out_sigs)
        ]
        words.extend([o.addr for o in outs])
        for i in entry.donated:
            x = leaves[i]
            if i not in aliases.values():
                x.sig.put(x.addr)
            donate(x, self.name)
        entry.executable.call(words)
        return tree.unflatten(entry.out_tree, outs)
