"""functionalise: raw AFTER/STORE/LOAD graphs to pure ones, where every buffer version is a value.

The version of a buffer at a node is the buffer with every write of the node's past applied, in
order. A write to a part is an UPDATE. Derivatives are then those of the versions: the gradient
table of the ordering contract is a consequence. Run `check_order` first: it judges what the user
wrote; here two tips of one buffer at a join are taken to be disjoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fgrad.errors import OrderingError
from fgrad.uop import build as b
from fgrad.uop.cache import remember
from fgrad.uop.memory import NEVER, Clock, Memory, View, Write, joined, last_of, with_
from fgrad.uop.node import UOp, paused_gc, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.order import describe
from fgrad.uop.program import Call, Program, gets

_COMBINE = {Mode.ADD: b.add, Mode.MUL: b.mul, Mode.MIN: b.minimum, Mode.MAX: b.maximum}


def functionalise(outs: Sequence[UOp]) -> tuple[list[UOp], dict[UOp, UOp]]:
    """-> (the values of `outs`, {BUFFER or PARAM that is written: its final version}).

    What remains are pure nodes: no STORE, no LOAD; AFTER only where it orders values. Raises
    OrderingError for a write through an expanded view or to memory that may alias another buffer.
    """
    with paused_gc():
        return _Versions(outs).results()


class _Versions:
    def __init__(self, outs: Sequence[UOp]) -> None:
        self.outs = outs
        self.memory = Memory(outs)
        self.values: dict[UOp, UOp] = {}
        self.known: dict[tuple[UOp, Clock], UOp] = {}  # versions
        self.calls: dict[UOp, dict[int, UOp]] = {}  # new contents of written arguments
        if self.memory.is_shared:
            self._refuse_aliases()

    def results(self) -> tuple[list[UOp], dict[UOp, UOp]]:
        for u in self.memory.nodes:
            self.values[u] = self._value(u)
        past: dict[UOp, Clock] = {}
        for o in self.outs:
            for key, clock in self.memory.clocks[o].items():
                past[key] = joined(past.get(key, NEVER), clock)
        bases = dict.fromkeys([w.view.base for ws in self.memory.writes.values() for w in ws])
        final = {base: self._version(base, past[self.memory.key(base)])
                 for base in bases if base.op in (Op.BUFFER, Op.PARAM)}  # fmt: skip
        return [self.values[o] for o in self.outs], final

    def _refuse_aliases(self) -> None:
        bases = dict.fromkeys([v.base for v in self.memory.views.values()])
        bases = {base: None for base in bases if base.op in (Op.BUFFER, Op.PARAM)}
        if len(bases) > 1:
            names = ", ".join([describe(base) for base in bases])
            raise OrderingError(
                f"gradient through an aliased write: external memory is written, and {names} may "
                "share its bytes; copy the external array first"
            )

    # ---- values
    def _value(self, u: UOp) -> UOp:
        """The pure node that `u` stands for; a STORE stands for nothing and is never used."""
        if u.op is Op.STORE:
            return u
        values = self.values
        if u.op is Op.LOAD:
            return values[u.src[0]]
        if u.op is Op.AFTER:
            value = self._seen(u, values[u.src[0]])
            # what memory has ordered is now in the value; other deps order values and stay
            waits = [d for d in u.src[1:] if not self.memory.clocks[d] and d.op is not Op.LOAD]
            deps: list[UOp] = []
            for d in waits:  # a kernel that writes nothing is its results
                deps += values[d].src if values[d].op is Op.TUPLE else (values[d],)
            return uop(Op.AFTER, (value, *deps)) if deps else value
        if u.op is Op.CALL and u.arg.kind == "kernel":
            return self._call(u)
        if u in self.memory.views and u.src:
            view = self.memory.views[u]
            if u is not view.base:
                below = tuple([values[s] for s in u.src])
                return self._seen(u, u if below == u.src else uop(u.op, below, u.arg))
        src = tuple([values[s] for s in u.src])
        return u if src == u.src else uop(u.op, src, u.arg)

    def _seen(self, u: UOp, unchanged: UOp) -> UOp:
        """The version that a view or AFTER shows; `unchanged` if it shows what its source does."""
        view = self.memory.views.get(u)
        if view is None:
            return unchanged
        key = self.memory.key(view.base)
        clock = self.memory.clocks[u].get(key, NEVER)
        if clock == self.memory.clocks[u.src[0]].get(key, NEVER):
            return unchanged
        out = self._version(view.base, clock)
        for m in view.moves:
            out = uop(m.op, (out, *[self.values[s] for s in m.src[1:]]), m.arg)
        return out

    def _call(self, call: UOp) -> UOp:
        """A kernel that writes arguments becomes one that returns their new contents after its
        results; the TUPLE of the results stands for the call."""
        arg: Call = call.arg
        body, written = _pure_body(arg.body)
        src = tuple([self.values[s] for s in call.src])
        pure = gets(uop(Op.CALL, src, replace(arg, body=body)))
        results = len(arg.body.outs)
        self.calls[call] = dict(zip(written, pure[results:], strict=True))
        bases = [self.memory.targets[call.src[i]].base for i in written]
        if len(set(bases)) < len(bases):
            raise OrderingError(
                f"ambiguous CALL output gradient: {arg.name or 'the kernel'} writes one buffer "
                "through two arguments"
            )
        return uop(Op.TUPLE, tuple(pure[:results]))

    # ---- versions
    def _version(self, base: UOp, clock: Clock) -> UOp:
        """`base` after the writes in `clock`."""
        if clock == NEVER:
            return self.values[base]
        found = self.known.get((base, clock))
        if found is not None:
            return found
        writes = self.memory.writes[self.memory.key(base)]
        todo: list[Clock] = [clock]
        while todo:  # earlier versions first, without recursion
            want = todo[-1]
            last, rest = last_of(want)
            w = writes[last]
            # the write's own past when that is all, else (disjoint tips) on top of the others
            start = w.before if with_(w.before, last) == want else rest
            if start != NEVER and (base, start) not in self.known:
                todo.append(start)
                continue
            old = self.values[base] if start == NEVER else self.known[base, start]
            self.known[base, want] = self._apply(w, old)
            todo.pop()
        return self.known[base, clock]

    def _apply(self, write: Write, old: UOp) -> UOp:
        """`old` with one write."""
        u = write.node
        moves = write.view.moves
        if u.op is Op.CALL:
            return self._put(write.view, moves, old, self.calls[u][write.position], None, Mode.SET)
        value = self.values[u.src[1]]
        gate = self.values[u.src[2]] if len(u.src) == 3 else None
        return self._put(write.view, moves, old, value, gate, u.arg)

    def _put(
        self, view: View, moves: Sequence[UOp], old: UOp, v: UOp, gate: UOp | None, mode: Mode
    ) -> UOp:
        """`old` with `v` written into the part that `moves` show."""
        if not moves:
            new = v if mode is Mode.SET else _COMBINE[mode](old, v)
            return new if gate is None else b.where(gate, new, old)
        m, rest = moves[0], moves[1:]
        more = [self.values[s] for s in m.src[1:]]

        def inside(part: UOp) -> UOp:
            return self._put(view, rest, part, v, gate, mode)

        match m.op:
            case Op.RESHAPE:
                return b.reshape(inside(b.reshape(old, m.arg)), old.shape)
            case Op.PERMUTE:
                back = tuple([m.arg.index(i) for i in range(len(m.arg))])
                return b.permute(inside(b.permute(old, m.arg)), back)
            case Op.FLIP:
                return b.flip(inside(b.flip(old, m.arg)), m.arg)
            case Op.BITCAST:
                return b.bitcast(inside(b.bitcast(old, m.arg)), old.dtype)
            case Op.SHRINK if not rest and v.size:
                return b.update(old, v, mode=mode, box=m.arg, starts=more, gate=gate)
            case Op.SHRINK:
                part = inside(uop(Op.SHRINK, (old, *more), m.arg))
                return b.update(old, part, box=m.arg, starts=more)
            case Op.GATHER:
                return self._scatter(m, more[0], rest, old, v, gate, mode)
        raise OrderingError(
            f"a write through an expanded view of {describe(view.base)} would write one place "
            "more than once; write into the buffer itself"
        )

    def _scatter(
        self, m: UOp, idx: UOp, rest: Sequence[UOp], old: UOp, v: UOp, gate: UOp | None, mode: Mode
    ) -> UOp:
        """A write through computed indices; where they repeat, the last one wins (SET)."""
        if rest or (gate is not None and gate.shape != idx.shape):
            raise NotImplementedError(
                "a write through a view of computed indices, or gated more finely than by index; "
                "index last, and gate with a value shaped as the indices"
            )
        return b.update(old, v, mode=mode, idx=idx, gate=gate, batch=m.arg)


@remember(1024)
def _pure_body(body: Program) -> tuple[Program, tuple[int, ...]]:
    """-> (the body returning its results and the new contents of what it writes, those slots)."""
    outs, final = functionalise(body.outs)
    # a result that is a bare STORE has no value: its buffer's new contents stand in its place
    fixed = [final[Memory([o]).targets[o.src[0]].base] if o.op is Op.STORE else v
             for o, v in zip(body.outs, outs, strict=True)]  # fmt: skip
    written = tuple([i for i, p in enumerate(body.params) if p in final])
    return replace(body, outs=(*fixed, *[final[body.params[i]] for i in written])), written
