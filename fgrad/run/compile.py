"""Programs become executables, once; graphs of concrete arrays are run.

This is what un-jitted transformations use: the transformed program is compiled and cached by structure, like a
jitted one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from fgrad.config import config
from fgrad.hw.device import get_device
from fgrad.run.array import DeviceArray, sig_of
from fgrad.run.checked import Checked, moves_data
from fgrad.run.keys import TRACED_ANEW, concerns_keys, hand_on, use_keys
from fgrad.trace.buffers import holds_buffers
from fgrad.trace.keys import without_marks
from fgrad.trace.stage import check_leaks, hooks, lift_buffers
from fgrad.trace.tidy import tidy_program
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, paused_gc
from fgrad.uop.op import Op
from fgrad.uop.program import Program
from fgrad.uop.rewrite import step, work
from fgrad.uop.simplify import simplify_program


def compiled(
    program: Program,
    device_name: str,
    inline: frozenset[int] = frozenset(),
    donated: frozenset[int] = frozenset(),
    name: str = "program",
) -> Any:
    """The Executable of a closed program on a device, from the cache or made now.

    Devices are given programs that are simplified and tidied. What is compiled under other settings
    is another executable, where they matter.
    """
    if "keys" in config.check:
        program = without_marks(program)
    settings = (config.check, config.show, config.planner, config.opt)
    return _compiled(program, device_name, inline, donated, name, settings)


@lru_cache(maxsize=4096)
def _compiled(
    program: Program,
    device_name: str,
    inline: frozenset[int],
    donated: frozenset[int],
    name: str,
    settings: tuple[object, ...],
) -> Any:
    """`settings` are those that compiling asks for; they are in force."""
    with paused_gc():
        if config.check or config.show:  # the first part of tidying, to be seen on its own
            simple = step("uop/simplify", simplify_program, program, function=name)
        else:
            simple = program
        tidied = step("trace/tidy", tidy_program, simple, function=name)
        device = get_device(device_name)
        executable = device.compile(tidied, inline, donated, name)
        if "nan" in config.check and moves_data(device):
            return Checked(executable, device, program, donated, name)
        return executable


def forget_executables() -> None:
    """Empty the cache."""
    _compiled.cache_clear()


def run_program(
    program: Program, arrays: Sequence[DeviceArray], weak: Sequence[bool] | None = None
) -> list[DeviceArray]:
    """Run a closed program on concrete arrays; `weak` says which results have a weak dtype."""
    if holds_buffers(program):  # a derivative rule closed over arrays
        held, program = lift_buffers(program.params, program.outs)
        arrays = [*arrays, *[b.arg.owner for b in held]]
    device = arrays[0].sig.device if arrays else get_device()
    for a in arrays:
        a.check_alive()
    cells = use_keys(program, arrays, TRACED_ANEW) if concerns_keys(program) else ()
    # programs of transforms that nobody looks at are the same whatever function they are from
    name = work.function if config.check & {"nan", "oob"} or config.show else ""
    executable = compiled(program, device.name, name=name or "program")
    words = [a.addr for a in arrays]
    outs = []
    for i, (dtype, shape) in enumerate(program.avals):
        sig = sig_of(Aval(dtype, shape, weak is not None and weak[i]), device)
        outs.append(DeviceArray(sig, sig.take()))
    words.extend([o.addr for o in outs])
    executable.call(words)
    hand_on(cells, outs)
    return outs


def execute(outs: Sequence[UOp]) -> list[DeviceArray]:
    """Run a graph whose leaves are BUFFERs of concrete arrays and constants."""
    if all(o.op is Op.BUFFER for o in outs):
        return [o.arg.owner for o in outs]
    check_leaks(outs, "this computation")
    with paused_gc():
        buffers, program = lift_buffers([], outs)
    return run_program(program, [b.arg.owner for b in buffers])


hooks.execute = execute
hooks.execute_program = run_program
