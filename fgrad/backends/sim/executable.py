"""A compiled program of the SIM device: one EXEC or COPY for each step, planned on two queues."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fgrad.backends.cpu.host_calls import run_host_call
from fgrad.backends.executable import LoweredExecutable
from fgrad.backends.sim.port import Loaded
from fgrad.errors import CallbackFailedError, FgradError
from fgrad.hw.command import Block, Command, Copy, Exec, Host, Role, Span, Sym
from fgrad.hw.mock.machine import Context
from fgrad.hw.mock.packet import listing
from fgrad.hw.plan import Call, Lane, Plan, Stamped, plan, stamped
from fgrad.hw.pool import Lease
from fgrad.hw.submit import Launch
from fgrad.hw.window import window
from fgrad.lower import steps
from fgrad.lower.pipeline import Lowered
from fgrad.lower.render.python_program import PythonProgram
from fgrad.lower.steps import CondStep, CopyStep, Home, HostStep, ScanStep, Step, WhileStep
from fgrad.lower.storage import find
from fgrad.uop import dtype as dt
from fgrad.uop.program import Program

if TYPE_CHECKING:
    from fgrad.backends.sim.device import SimDevice

Bytes = npt.NDArray[np.uint8]


class _Codes:
    """Numbers of programs, known to the machine as long as this lives."""

    def __init__(self, remove: Callable[[int], None]) -> None:
        self.numbers: list[int] = []
        weakref.finalize(self, _remove_all, remove, self.numbers)


def _remove_all(remove: Callable[[int], None], numbers: list[int]) -> None:
    for number in numbers:
        remove(number)


class _Addresses(list[int]):
    """What a host call indexes to find its arrays."""


class SimExecutable(LoweredExecutable):
    """See the module."""

    machine = "SIM"

    def __init__(
        self, device: SimDevice, program: Program, lowered: Lowered, inline: frozenset[int], name: str
    ) -> None:
        super().__init__(program, lowered, inline, name)
        self.device = device
        self.host_calls = list(zip(lowered.hosts, lowered.host_avals, strict=True))
        self.twin = PythonProgram(lowered.block, lowered.arena_bytes, self._nested_host)
        self._turn = threading.RLock()
        self._words: Sequence[int] = ()  # of the call that is being submitted
        self._codes = _Codes(device.machine.remove_code)
        self._functions: dict[str, Callable[[], object]] = {}
        self._programs: dict[str, Loaded] = {}
        self._names: dict[str, tuple[str, str]] = {}  # EXEC's name -> the kernel's, its source line
        self._copies = 0
        self._calls = tuple([self._call(i, s) for i, s in enumerate(lowered.block.steps)])
        self.plan: Plan = plan(self._calls)
        self.launch = self._make_launch(self.plan)
        self._stamped: tuple[Stamped, Launch] | None = None  # made when it is first profiled

    def _make_launch(self, found: Plan) -> Launch | None:
        """None where there is nothing to do. Queues that work together begin together."""
        names, machines = self.device.port.programs, self.device.machines
        if not found.steps:
            return None
        with machines.lock:  # another program's steps have the same names
            before = dict(names)
            names.update(self._programs)
            launch = Launch(found, machines, self.name, self._functions, gated=True)
            names.clear()  # the numbers are in the packets now
            names.update(before)
        return launch

    # ---- steps become commands
    def _call(self, number: int, step: Step) -> Call:
        compute = Lane(self.device.name)
        command: Command
        match step:
            case CopyStep():
                target, source = self._span(step.writes[0]), self._span(step.reads[0])
                if target is not None and source is not None and target.length == source.length:
                    queue = self.device.copy_queues[self._copies % len(self.device.copy_queues)]
                    self._copies += 1
                    return Call(Lane(self.device.name, queue), Copy(target, source))
                reads, writes = list(step.reads), list(step.writes)
            case steps.Launch():
                pairs = list(zip(step.arguments, step.kernel.buffers, strict=True))
                reads = [m for m, b in pairs if b.read]
                writes = [m for m, b in pairs if b.written]
            case HostStep():
                key = f"call {number}"
                self._functions[key] = partial(self._host, step)
                return Call(compute, Host(key, self._spans(step.reads), self._spans(step.writes)))
            case ScanStep():
                reads, writes = list(step.reads), [*step.writes, *step.spare, step.work]
            case WhileStep():
                reads, writes = list(step.reads), [*step.writes, *step.spare, step.work, step.flag]
            case CondStep():
                reads, writes = list(step.reads), [*step.writes, step.work]
            case _:
                raise NotImplementedError(f"the SIM device has no {type(step).__name__}")
        used = list(dict.fromkeys([*reads, *writes, *getattr(step, "arguments", ())]))
        kernel = getattr(step, "kernel", None)
        name = f"{number}:{kernel.name if kernel else type(step).__name__.removesuffix('Step').lower()}"
        code = self.device.machine.add_code(
            f"{self.name} {name}", partial(_run, step, used, frozenset(reads), frozenset(writes), weakref.ref(self))
        )
        self._codes.numbers.append(code)
        self._programs[name] = Loaded(code, (self._codes, self))
        self._names[name] = (name.partition(":")[2], kernel.line if kernel else "")
        command = Exec(name, tuple([self._word(m) for m in used]), self._spans(reads), self._spans(writes))
        return Call(compute, command)

    def _home(self, memory: int) -> tuple[Sym, int, int]:
        """-> (what stands for the address of its block, the bytes of that, where it begins there)."""
        block = self.lowered.block
        root = find(block.root, memory)
        owner = block.memories[root]
        if owner.home is Home.PARAM:
            return Sym(Role.INPUT, owner.number), self.in_sizes[owner.number], 0
        if owner.home is Home.OUT:
            return Sym(Role.OUTPUT, owner.number), self.out_sizes[owner.number], 0
        return Sym(Role.INPUT, len(self.in_sizes)), self.arena_bytes, block.offset.get(root, 0)

    def size_of(self, memory: int) -> int:
        """Bytes of a memory of the outermost block."""
        block = self.lowered.block
        owner = block.memories[find(block.root, memory)]
        if owner.home is Home.PARAM:
            return self.in_sizes[owner.number]
        return self.out_sizes[owner.number] if owner.home is Home.OUT else owner.bytes

    def is_inline(self, memory: int) -> bool:
        """Whether its word holds the bits of a scalar."""
        owner = self.lowered.block.memories[find(self.lowered.block.root, memory)]
        return owner.home is Home.PARAM and owner.number in self.inline_params

    def _span(self, memory: int) -> Span | None:
        if self.is_inline(memory):
            return None
        sym, nbytes, offset = self._home(memory)
        return Block(self.device.name, sym, nbytes).span(offset, min(self.size_of(memory), nbytes - offset))

    def _spans(self, memories: Sequence[int]) -> tuple[Span, ...]:
        spans = [self._span(m) for m in dict.fromkeys(memories)]
        return tuple([span for span in spans if span is not None and span.length])

    def _word(self, memory: int) -> Sym:
        sym, _, offset = self._home(memory)
        return Sym(sym.role, sym.index, offset)

    # ---- running
    def call(self, argument_words: list[int]) -> None:
        """Submit. The words: addresses of parameters (bits of inlined scalars), then of outputs."""
        self.check_words(argument_words)
        count = len(self.in_sizes)
        for port in self.device.ports.values():
            port.timeline.refuse()
        if self.launch is None:
            return
        # given back when this returns: like all memory, its next user is queued behind
        lease = Lease(self.device.pool)
        arena = lease.take(self.arena_bytes)
        inputs = [*[word & (1 << 64) - 1 for word in argument_words[:count]], arena]
        profile, launch = self.device.profile, self.launch
        with self._turn:
            before, self._words = self._words, [*inputs, *argument_words[count:]]
            try:
                if profile is not None:
                    times, launch = self._with_stamps()
                    inputs.append(profile.expect(times, self.device.clock_offset(), self.name, self._names))
                launch(inputs, argument_words[count:])
            finally:
                self._words = before

    def _with_stamps(self) -> tuple[Stamped, Launch]:
        if self._stamped is None:
            times = stamped(self._calls, Sym(Role.INPUT, len(self.in_sizes) + 1))
            launch = self._make_launch(times.plan)
            assert launch is not None, "there is something to do, as there is without stamps"
            self._stamped = times, launch
        return self._stamped

    def _host(self, step: HostStep) -> None:
        """Between two submissions: call Python on what is in memory now."""
        addresses, keep = _Addresses(), []
        for memory in (*step.reads, *step.writes):
            sym, _, offset = self._home(memory)
            first = sym.index + (len(self.in_sizes) + 1 if sym.role is Role.OUTPUT else 0)
            word = self._words[first] + offset
            if self.is_inline(memory):
                keep.append(_bits(word))
                word = keep[-1].__array_interface__["data"][0]
            addresses.append(word)
        run_host_call(self.host_calls[step.call], addresses)

    def _nested_host(self, number: int, ins: Sequence[Bytes], outs: Sequence[Bytes]) -> None:
        """From within a loop or a branch."""
        addresses = _Addresses([x.__array_interface__["data"][0] for x in (*ins, *outs)])
        try:
            run_host_call(self.host_calls[number], addresses)
        except Exception as error:
            if isinstance(error, FgradError) and error.by_program:
                raise
            raise CallbackFailedError(f"a Python callback inside {self.name} raised {error!r}") from error

    def stages(self) -> dict[str, Callable[[], str]]:
        """The common ones, and the packets of the first call, with holes as 0."""
        known = super().stages() | {"commands": lambda: str(self.plan)}
        return known | {"packets": lambda: "\n".join(self._packets())}

    def _packets(self) -> list[str]:
        lines = []
        for segment in [] if self.launch is None else self.launch.segments():
            for lane, record in segment.records:
                data = np.frombuffer(record.words.data, np.uint64).tolist()
                lines.append(f"{self.plan.lanes[lane]}: {listing(data).strip()}")
        return lines


def _bits(word: int) -> Bytes:
    return np.frombuffer(bytearray((word & (1 << 64) - 1).to_bytes(8, "little")), np.uint8)


def _run(
    step: Step,
    used: Sequence[int],
    reads: frozenset[int],
    writes: frozenset[int],
    executable: weakref.ref[SimExecutable],
    context: Context,
    arguments: Sequence[int],
) -> None:
    """EXEC: check what the step touches, and let its twin compute.

    The machine knows the code as long as the executable lives, which what is in flight holds.
    """
    owner = executable()
    assert owner is not None, "its code was removed"
    twin = owner.twin
    places: list[Any] = [None] * len(twin.block.memories)
    for memory, word in zip(used, arguments, strict=True):
        size = owner.size_of(memory)
        if owner.is_inline(memory):
            places[memory] = _bits(word)[:size]
            continue
        if memory in reads:
            context.read(word, size)
        if memory in writes:
            context.write(word, size)
        places[memory] = window(word, dt.uint8, (size,), writable=True)
    try:
        twin.take(step, places)
    except CallbackFailedError as error:
        context.processor.report(error)
