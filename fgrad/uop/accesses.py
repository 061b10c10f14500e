"""What a call reads and writes: clause 7 of the ordering contract (`order.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fgrad.errors import OrderingError
from fgrad.uop.cache import remember
from fgrad.uop.node import UOp
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Call, Program
from fgrad.uop.region import VIEWS


class Accesses(NamedTuple):
    """Positions of the arguments that a call reads and writes, ascending, each once.

    As the `rule` of a CALL of kind "opaque" it is the record of a compiled program's slots.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]


def accesses(call: UOp) -> Accesses:
    """The arguments of a CALL, COPY or HOST node that it reads and those that it writes.

    A user's kernel (kind "kernel") is read from its body, nested calls through each level's own
    parameters; an opaque call must carry its record. Other calls are values of values: they read
    everything and write nothing. Raises OrderingError for an opaque call without a record, a slot
    that is no argument, and a writable argument of an opaque call that shares storage with another.
    """
    everything = tuple(range(len(call.src)))
    if call.op is not Op.CALL:
        return Accesses(everything, ())
    arg: Call = call.arg
    if arg.kind == "opaque":
        return _recorded(call, arg)
    if arg.kind != "kernel":
        return Accesses(everything, ())
    return of_body(arg.body)


def _recorded(call: UOp, arg: Call) -> Accesses:
    record = arg.rule
    if not isinstance(record, Accesses):
        raise OrderingError(
            f"cannot compute accesses of the opaque call {arg.name or call}: it has no record of "
            "what it reads and writes; give it one, or write it as a kernel"
        )
    for slot in (*record.reads, *record.writes):
        if not 0 <= slot < len(call.src):
            raise OrderingError(
                f"invalid CALL access slot {slot} of {arg.name or call}, "
                f"which has {len(call.src)} arguments"
            )
    bases = [base_of(x) for x in call.src]
    for w in record.writes:
        for i, base in enumerate(bases):
            if i != w and base is bases[w]:
                raise OrderingError(
                    f"aliased opaque argument: {arg.name or call} writes argument {w}, which "
                    f"shares its storage with argument {i}"
                )
    return Accesses(tuple(sorted(set(record.reads))), tuple(sorted(set(record.writes))))


@remember(1024)
def of_body(body: Program) -> Accesses:
    """The accesses of a raw body, by parameter."""
    slot = {p: i for i, p in enumerate(body.params)}
    reads: set[int] = set()
    writes: set[int] = set()
    nodes = body.nodes
    as_value = value_uses(nodes, ())

    def enter(into: set[int], x: UOp) -> None:
        base = base_of(x)
        if base in slot:
            into.add(slot[base])

    for u in nodes:
        for i in reads_of(u, as_value):
            enter(reads, u.src[i])
        for i in writes_of(u):
            enter(writes, u.src[i])
    return Accesses(tuple(sorted(reads)), tuple(sorted(writes)))


def base_of(x: UOp) -> UOp:
    """The storage, or computed value, below a chain of views and AFTERs."""
    while x.op in VIEWS or x.op in (Op.AFTER, Op.GATHER):
        x = x.src[0]
    return x


def value_uses(nodes: list[UOp], outs: tuple[UOp, ...]) -> set[UOp]:
    """The nodes whose contents somebody uses, as opposed to their storage as a target.

    `nodes` in topological order. What an AFTER hands on counts when the AFTER counts.
    """
    used = set(outs)
    for u in reversed(nodes):
        if u.op is Op.STORE:
            used.update(u.src[1:])
        elif u.op is Op.AFTER:
            if u in used:
                used.add(u.src[0])
        elif u.op in VIEWS or u.op is Op.GATHER:
            used.update(u.src if u in used else u.src[1:])
        elif u.op is not Op.CALL:
            used.update(u.src)
        else:
            used.update([u.src[i] for i in accesses(u).reads])
    return used


def reads_of(u: UOp, as_value: set[UOp]) -> Sequence[int]:
    """The sources whose contents node `u` itself takes; views and AFTERs only pass theirs on."""
    if u.op is Op.AFTER:
        return ()
    first = 0
    if u.op in VIEWS:
        first = 1  # computed starts
    elif u.op is Op.GATHER:
        first = int(u not in as_value)
    elif u.op is Op.STORE:
        first = int(u.arg is Mode.SET)  # an accumulation reads its target
    elif u.op is Op.CALL:
        return accesses(u).reads
    return range(first, len(u.src))


def writes_of(u: UOp) -> Sequence[int]:
    """The sources that node `u` writes through."""
    if u.op is Op.STORE:
        return (0,)
    return accesses(u).writes if u.op is Op.CALL else ()
