"""contract_part: writing the functions beside the kernel of a contraction, which the driver calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fgrad.lower.contract_build import Form
from fgrad.lower.emit import I64
from fgrad.lower.generate import Writer
from fgrad.lower.index import Expr
from fgrad.lower.lanes import VectorBinding

FRAME_RUNTIME = 2  # word of a kernel's frame


def runtime(w: Writer) -> str:
    at = w.e.pointer("%f", FRAME_RUNTIME, "i64")
    return w.e.value(f"load ptr, ptr {at}, align 8", at)


def function(w: Writer, slot: int) -> str:
    """The pointer in a slot of the runtime table."""
    at = w.e.pointer(runtime(w), slot, "ptr")
    return w.e.value(f"load ptr, ptr {at}, align 8", at)


def part_of(w: Writer, name: str, parameters: str, form: Form) -> Writer:
    """A writer of another function of the same kernel, which gets the same frame %f."""
    kernel = replace(w.kernel, scratch=())
    part = Writer(kernel, name, w.width, w.limits, w.e.declarations, w.e.helpers)
    part.e.head = f"define internal void @{name}({parameters}) #0 {{\nentry:"
    if form.batch[1]:
        part.ev.position[form.batch[1][0][0]] = "%batch"
    return part


def finish(w: Writer, part: Writer, name: str) -> str:
    w.e.helpers[name] = part.e.finish()
    return f"@{name}"


def in_lanes(part: Writer, e: Expr, quotient: Expr, copy: int) -> None:
    """Bind the range of `e` to quotient + width * copy + lane."""
    part.ev.open = VectorBinding(e[1][0][0], 0, quotient, copy)


def first_lanes(part: Writer, count: I64, before: int) -> str:
    """Mask of the lanes i with before + i < count."""
    v, lanes = part.ev.wide, part.width
    steps = "<" + ", ".join([f"i64 {before + i}" for i in range(lanes)]) + ">"
    limit = v.splat(str(count), "i64")
    return part.e.value(f"icmp slt {v.t('i64')} {steps}, {limit}", limit)


def held_range(part: Writer, size: int, register: I64) -> Expr:
    """A range that is held by `register`."""
    e = part.kernel.ranges.range(max(size, 2))
    part.ev.position[e[1][0][0]] = register
    return e


def each(part: Writer, lo: I64, hi: I64, body: Callable[[I64], None]) -> None:
    """A loop that runs at least once."""

    def run(i: I64, _: list[str]) -> Sequence[str]:
        body(i)
        return ()

    part.e.loop(lo, hi, 1, (), run)
