"""Micro-kernels: compiled once for this machine, kept on disk, reached through the runtime table."""
from __future__ import annotations

from collections.abc import Iterable

from fgrad.backends.cpu.code import Code, load_code
from fgrad.backends.cpu.native import provide
from fgrad.lower.contract_build import machine_of
from fgrad.lower.limits import Limits
from fgrad.lower.micro.slots import Micro, micro_ir

_provided: dict[Micro, Code] = {}


def provide_micro(keys: Iterable[Micro], limits: Limits) -> None:
    """See to it that the runtime table holds these modules' functions."""
    for key in keys:
        if key not in _provided:
            text, slots = micro_ir(key, machine_of(limits))
            code = load_code(text, [name for name, _ in slots], level=2)
            for name, slot in slots:
                provide(slot, code.addresses[name])
            _provided[key] = code
