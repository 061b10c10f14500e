"""Copies between devices: the route, and the commands.

One device, or several whose queues see each other's timelines: a queue of the target (one of its copy
queues in turn, if it has any) waits for what the source has queued, copies, and the source waits at
its end, so that both may hand their memory on. Nobody waits on the host. Any other pair of devices with
host memory: the host waits for both and copies. A device whose memory the host cannot touch has `fetch`
and `deliver`, which copy between an address of it and host memory; two such devices take turns at a piece
of host memory.
"""

from __future__ import annotations

import time
from functools import lru_cache
from itertools import count
from typing import Any

from fgrad.hw.command import Block, Copy, Role, Sym
from fgrad.hw.libc import ffi, memmove
from fgrad.hw.plan import Call, Lane, Stamped, plan, stamped
from fgrad.hw.submit import Launch
from fgrad.hw.timeline import Fence, HostTimeline

_DONE = HostTimeline("host")  # of devices without one: their work is done when a call returns
SLOT_BYTES = 1 << 20  # of a copy between two devices whose memory the host cannot touch
_turns = count()
INLINE_BYTES = 1 << 20  # a shorter copy, about 0.1 ms, is made at once if both devices are idle


def copy(target: Any, target_address: int, source: Any, source_address: int, nbytes: int) -> Fence:
    """Copy `nbytes` from an address of device `source` to one of device `target`.

    Both blocks may be freed into their pools when this returns. The Fence is on the target's
    timeline; it is done at once where the host made the copy. The ranges must not overlap. What failed
    on the source, and nobody was told of, is raised here, or else by whoever waits for the target.
    """
    machines = getattr(target, "machines", None)
    if hasattr(source, "fetch") or hasattr(target, "deliver"):
        source.sync()
        if target is not source:
            target.sync()
        return _copy_by_pieces(target, target_address, source, source_address, nbytes)
    if machines is None or getattr(source, "machines", None) is not machines:
        source.sync()
        if target is not source:
            target.sync()
        return _copy_now(target, target_address, source_address, nbytes)
    if not nbytes:
        return Fence(target.timeline, 0)
    if nbytes <= INLINE_BYTES and _is_idle(target) and _is_idle(source):
        source.sync()  # nothing runs there: it raises what went wrong
        return _copy_now(target, target_address, source_address, nbytes)
    profile = getattr(target, "profile", None)
    queues = getattr(target, "copy_queues", ("compute",))
    lane = Lane(target.name, queues[next(_turns) % len(queues)])
    launch, times = _launch(machines, lane, source.name, nbytes, profile is not None)
    inputs = [source_address]
    if profile is not None:
        inputs.append(profile.expect(times, getattr(target, "clock_offset", int)()))
    fences = launch(inputs=inputs, outputs=[target_address])
    return fences[launch.plan.lanes.index(Lane(target.name))]


def _is_idle(device: Any) -> bool:
    timeline = device.timeline
    return bool(timeline.completed() == timeline.issued())


def _copy_by_pieces(target: Any, to: int, source: Any, of: int, nbytes: int, slot_bytes: int = SLOT_BYTES) -> Fence:
    fetch: Any = getattr(source, "fetch", None)
    deliver: Any = getattr(target, "deliver", None)
    if deliver is None:
        fetch(of, to, nbytes)
    elif fetch is None:
        deliver(to, of, nbytes)
    else:
        slot = ffi.new("char[]", max(1, min(nbytes, slot_bytes)))
        address = int(ffi.cast("intptr_t", slot))
        for at in range(0, nbytes, slot_bytes):
            length = min(slot_bytes, nbytes - at)
            fetch(of + at, address, length)
            deliver(to + at, address, length)
    return Fence(getattr(target, "timeline", _DONE), 0)


def _copy_now(target: Any, target_address: int, source_address: int, nbytes: int) -> Fence:
    if nbytes:
        start = time.monotonic_ns()
        memmove(target_address, source_address, nbytes)
        profile = getattr(target, "profile", None)
        if profile is not None:
            profile.note_copy("copy", start, time.monotonic_ns(), nbytes)
    return Fence(getattr(target, "timeline", _DONE), 0)


@lru_cache(maxsize=64)
def _launch(machines: Any, lane: Lane, source: str, nbytes: int, profiled: bool) -> tuple[Launch, Stamped]:
    target = lane.device
    into = Block(target, Sym(Role.OUTPUT, 0), nbytes)
    out_of = Block(source, Sym(Role.INPUT, 0), nbytes)
    calls = (Call(lane, Copy(into.span(), out_of.span())),)
    times = stamped(calls, Sym(Role.INPUT, 1))
    found = times.plan if profiled else plan(calls)
    inherits = frozenset({i for i, other in enumerate(found.lanes) if other.device == source != target})
    return Launch(found, machines, f"copy of {nbytes} bytes to {target}", inherits=inherits), times
