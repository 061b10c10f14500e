"""lower: a Program to kernels in order and the LLVM text of one module with one function, `void
entry(ptr t)`.

The table `t` is described in `abi`. Every output is written into its own buffer, except donated
ones (`aliases`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from typing import Any

from fgrad.config import config
from fgrad.lower.ahead import write_ahead
from fgrad.lower.block import Context, build_block
from fgrad.lower.complex import real_program
from fgrad.lower.contract import micro_of
from fgrad.lower.contract_emit import CALLS_CONTRACT
from fgrad.lower.driver import COPY_BYTES, NOTE_TIME, Driver
from fgrad.lower.generate import CALLS, Writer
from fgrad.lower.hazards import check_block
from fgrad.lower.kernel import Kernel
from fgrad.lower.key import structural_key
from fgrad.lower.limits import Limits
from fgrad.lower.micro.slots import Micro
from fgrad.lower.show import show_kernel
from fgrad.lower.steps import Block, CondStep, Home, Launch, ScanStep, Step, WhileStep
from fgrad.lower.storage import find, place
from fgrad.lower.turn import write_turn
from fgrad.uop.aval import Aval
from fgrad.uop.program import Host, Program
from fgrad.uop.rewrite import is_shown, step

__all__ = ["Limits", "Lowered", "Needs", "lower"]
CALLS.update(CALLS_CONTRACT)
CALLS["turn"] = write_turn
CALLS["ahead"] = write_ahead
STEP_NS = 10.0  # a call of a kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What running a lowered program takes, and what it does besides computing.

    arena_bytes   size of the arena a call needs, 64-byte aligned
    scratch_bytes of one worker
    workers_wanted whether any kernel is split into tasks
    work          estimated nanoseconds on one core
    flops, bytes  operations, and bytes read and written, of one call
    hosts         the callbacks, by the index that host calls pass; `host_avals` are their
    arguments'
    aliases       output -> parameter slot in whose memory it is left (donated ones only)
    unbounded     whether it may run for any length of time (WHILE)
    micro         modules of micro-kernels that the runtime table must hold
    sites         under FGRAD_SHOW=kernels: the kernels at the places that are measured, and
    marks         where in the arena (bytes) what is measured of each begins, see `driver`
    """

    arena_bytes: int
    scratch_bytes: int
    workers_wanted: bool
    work: float
    flops: int
    bytes: int
    aliases: dict[int, int]
    unbounded: bool
    micro: tuple[Micro, ...]
    hosts: tuple[Host, ...] = ()
    host_avals: tuple[tuple[Aval, ...], ...] = ()
    sites: tuple[Kernel, ...] = ()
    marks: int = 0

    def needs(self) -> dict[str, Any]:
        """These fields, by name."""
        return {f.name: getattr(self, f.name) for f in fields(Needs)}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Lowered(Needs):
    """A lowered program.

    kernels       in order of first run, bodies of loops included
    ir            the LLVM text of the module; `entry` is its only external function
    distinct      how many kernels have code of their own
    """

    kernels: tuple[Kernel, ...]
    ir: str
    block: Block
    distinct: int = 0

    def as_text(self) -> str:
        """The kernels, readable."""
        return "\n\n".join([show_kernel(k) for k in self.kernels])


def lower(
    program: Program,
    limits: Limits,
    *,
    inline: frozenset[int] = frozenset(),
    donated: frozenset[int] = frozenset(),
    name: str = "program",
) -> Lowered:
    """Lower `program` for a device with `limits`.

    inline   slots whose word of the table holds the scalar's bits instead of a pointer
    donated  slots whose memory outputs may take
    """
    real = real_program(program)
    step("lower/real", lambda _: real.program, program, function=name)
    context = Context(limits, real.hosts)
    block = build_block(real.program, context)
    place(block, frozenset(donated - inline), exact=False)
    if "order" in config.check:
        check_block(block, name)
    _note_unaligned(block)
    kernels: list[tuple[Kernel, float]] = []
    _collect(block.steps, 1.0, kernels)
    texts, names, declarations = _functions([k for k, _ in kernels], limits)
    scratch = max([k.scratch_offsets[1] for k, _ in kernels], default=0)
    timed = bool(config.show) and is_shown("hw/kernels", name)
    driver = Driver(names, len(program.params), inline, timed)
    entry, arena = driver.entry(block, scratch)
    declarations.add("declare i64 @llvm.smax.i64(i64, i64)")
    parts = [f"; {name}", *sorted(declarations), *texts]
    if driver.copies:
        parts.append(COPY_BYTES)
    if timed:
        parts.append(NOTE_TIME)
    parts += ["\n".join(entry), "!0 = !{i32 1}", "attributes #0 = { nounwind }"]
    work = sum([k.work_ns * times + STEP_NS for k, times in kernels])
    lowered = Lowered(
        kernels=tuple([k for k, _ in kernels]),
        ir="\n".join(parts) + "\n",
        block=block,
        distinct=len(set(names.values())),
        arena_bytes=arena,
        scratch_bytes=scratch,
        workers_wanted=any(k.tasks > 1 for k, _ in kernels),
        work=work,
        flops=int(sum([k.flops * times for k, times in kernels])),
        bytes=int(sum([k.bytes * times for k, times in kernels])),
        aliases=dict(block.aliases),
        unbounded=context.unbounded,
        micro=micro_of([k for k, _ in kernels]),
        hosts=tuple([h for h, _ in context.hosts]),
        host_avals=tuple([a for _, a in context.hosts]),
        sites=tuple(driver.sites),
        marks=driver.marks if driver.sites else 0,
    )
    if config.show and is_shown("lower/kernel", name):
        print(f"== lower/kernel of {name}: {len(kernels)} kernels\n{lowered.as_text()}", file=sys.stderr)
    return lowered


def _note_unaligned(block: Block) -> None:
    """Parameters may start anywhere, also where they are written in place; all other memory is
    aligned.
    """
    for s in block.steps:
        if isinstance(s, Launch):
            homes = [block.memories[find(block.root, m)].home for m in s.arguments]
            s.kernel.unaligned = frozenset([
                i for i, h in enumerate(homes) if h is Home.PARAM and s.kernel.buffers[i].written
            ])  # fmt: skip


def _collect(steps: list[Step], times: float, out: list[tuple[Kernel, float]]) -> None:
    """All kernels with how often they run."""
    for s in steps:
        match s:
            case Launch():
                out.append((s.kernel, times))
            case ScanStep():
                _collect(s.body.steps, times * s.scan.length, out)
            case WhileStep():
                _collect(s.cond.steps, times * 10, out)
                _collect(s.body.steps, times * 10, out)
            case CondStep():
                for b in s.branches:
                    _collect(b.steps, times / len(s.branches), out)


def _functions(kernels: list[Kernel], limits: Limits) -> tuple[list[str], dict[int, str], set[str]]:
    """-> (texts, name of the function of each kernel by id, declarations); equal kernels are
    written once.
    """
    declarations: set[str] = set()
    helpers: dict[str, str] = {}
    texts: list[str] = []
    names: dict[int, str] = {}
    known: dict[object, str] = {}
    for k in kernels:
        key = structural_key(k)
        name = known.get(key)
        if name is None:
            name = known[key] = k.name
            texts.append(Writer(k, name, k.width, limits, declarations, helpers).text())
        names[id(k)] = name
    return [*helpers.values(), *texts], names, declarations
