"""Raw graphs: STORE, AFTER and LOAD over the memory of concrete arrays, run in the order they state.

The order is checked as written, before anything runs; a failure replaces no array. Then every
version of a buffer becomes a value, and the final versions go into the arrays that were written.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from fgrad.errors import OrderingError, note_user_line
from fgrad.run.array import DeviceArray
from fgrad.run.compile import run_program
from fgrad.trace.frames import trimmed
from fgrad.trace.functionalise import functionalise
from fgrad.trace.stage import check_leaks, is_tracing, lift_buffers
from fgrad.trace.tracer import Tracer
from fgrad.uop.node import UOp, paused_gc, substitute, toposort
from fgrad.uop.op import Op
from fgrad.uop.order import check_order, describe

__all__ = ["run_graph"]


@trimmed
def run_graph(outs: Sequence[UOp]) -> list[Any]:
    """The values of `outs`, whose leaves are constants and BUFFERs of concrete arrays (`x.as_node()`).

    Arrays whose BUFFER is the target of a STORE hold their final contents afterwards; results never
    share memory with them. Inside a traced function the leaves may be traced values, and the values are such;
    there a graph writes only storage of its own (a LOAD): write what it gives to a Ref to keep it.

    Raises OrderingError when no order can honour all reads and writes.
    """
    outs = _one_node_each(list(outs))
    check_leaks(outs, "this graph")
    try:
        check_order(outs)
    except OrderingError as error:
        raise note_user_line(error) from None
    with paused_gc():
        values, final = functionalise(outs)
        if is_tracing():
            if final:
                raise note_user_line(
                    OrderingError(
                        f"a graph inside a traced function writes {describe(next(iter(final)))}, which is a value "
                        "there and has no memory; write to a LOAD of it, and what that holds to a Ref"
                    )
                )
            return [Tracer(v) for v in values]
        targets = [base for base in final if base.op is Op.BUFFER]
        buffers, program = lift_buffers([], [*values, *[final[t] for t in targets]])
    results = run_program(program, [u.arg.owner for u in buffers])
    for target, new in zip(targets, results[len(outs) :], strict=True):
        _replace(target.arg.owner, new)
    return results[: len(outs)]


def _one_node_each(outs: list[UOp]) -> list[UOp]:
    """The same graph with one BUFFER for each array, however often its node was asked for."""
    first: dict[int, UOp] = {}
    same = {}
    for u in toposort(outs):
        if u.op is Op.BUFFER and first.setdefault(id(u.arg.owner), u) is not u:
            same[u] = first[id(u.arg.owner)]
    return substitute(outs, same) if same else outs


def _replace(array: DeviceArray, new: DeviceArray) -> None:
    """Give `array` the contents of `new`, which gets its old ones."""
    array.addr, new.addr = new.addr, array.addr
    array.sig, new.sig = new.sig, array.sig
    if new.sig is not array.sig:  # NumPy has looked at the old contents, as the memory of `array`
        weakref.finalize(array, _keep, new)


def _keep(array: DeviceArray) -> None:
    """Hold `array` until now."""
