"""A program (or the body of a loop) as steps over buffers: kernels in order, loops, branches, calls
of the host.

Building is recursive: SCAN, WHILE and COND hold the Blocks of their programs. Buffers are per
Block; where they lie is decided when the steps are known (`storage`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fgrad.lower import contract
from fgrad.lower.cluster import Cluster, ClusterKind, Partition
from fgrad.lower.complex import HostCall
from fgrad.lower.graph import ELEMENTS, OPAQUE, under
from fgrad.lower.inplace import same_place
from fgrad.lower.kernel import Buffer, Kernel
from fgrad.lower.limits import Limits
from fgrad.lower.need import Lengths, lengths_below, needed
from fgrad.lower.opaque import build_copy, build_prefix, build_update, read_below
from fgrad.lower.partition import partition
from fgrad.lower.prepare import UNDEFINED, prepare
from fgrad.lower.rows import Built, build_rows
from fgrad.lower.sort import build_sort, memory_sources
from fgrad.lower.steps import (
    Block,
    CondStep,
    CopyStep,
    Home,
    HostStep,
    Launch,
    Replacement,
    ScanStep,
    Step,
    WhileStep,
)
from fgrad.lower.storage import place
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, toposort
from fgrad.uop.op import Op
from fgrad.uop.program import Cond, Program, Scan, While


@dataclass(slots=True, eq=False)
class Context:
    """What the blocks of one program share."""

    limits: Limits
    rewritten: Mapping[HostCall, HostCall] = field(default_factory=dict)
    hosts: list[HostCall] = field(default_factory=list)
    unbounded: bool = False
    kernels: int = 0

    def name(self, what: str) -> str:
        self.kernels += 1
        return f"k{self.kernels - 1}_{what}"


def build_block(program: Program, context: Context) -> Block:
    """The steps of `program`; memories are not placed yet."""
    return _Builder(program, context).build()


class _Builder:
    def __init__(self, program: Program, context: Context) -> None:
        self.program = program
        self.context = context
        self.block = Block()
        self.at: dict[UOp, int] = {}  # node -> memory
        self.need: dict[UOp, Lengths] = {}  # how much of a node is read

    def build(self) -> Block:
        block, program = self.block, self.program
        for slot, p in enumerate(program.params):
            self.at[p] = block.memory(Home.PARAM, p.dtype, p.size * p.dtype.itemsize, slot)
            block.params.append(self.at[p])
        outs = prepare(program.outs)
        parts = partition([o for o in outs if o.size])
        if any(p.shape == () and p.dtype is dt.int64 for p in program.params):  # it may be a length
            self.need = needed(outs, {j: program.params[slot] for j, slot in program.spans})
        self.gets = {(u.src[0], u.arg): u for u in toposort(outs) if u.op is Op.GET}
        self.claimed: dict[UOp, int] = {}  # node that is computed straight into an output
        for j, o in enumerate(outs):
            t = under(o)
            if o.size and t.op is not Op.PARAM and t not in self.claimed:
                self.claimed[t] = j
        for c in parts.clusters:
            self._cluster(c, parts)
        for j, o in enumerate(outs):
            t = under(o)
            if self.claimed.get(t) == j:
                block.outs.append(self.at[t])
                continue
            out = block.memory(Home.OUT, o.dtype, o.size * o.dtype.itemsize, j)
            block.outs.append(out)
            if o.size:
                copy = self._copy(t, self.at[t], out)
                block.replacements.append(Replacement(copy, copy, self.at[t], out))
        return block

    # ---- memory
    def _new(self, u: UOp) -> int:
        """The memory that the value of `u` is computed into."""
        bytes_ = u.size * u.dtype.itemsize
        j = self.claimed.get(u)
        if j is None:
            found = self.block.memory(Home.TEMP, u.dtype, bytes_)
        else:
            found = self.block.memory(Home.OUT, u.dtype, bytes_, j)
        self.at[u] = found
        return found

    def _results(self, u: UOp) -> tuple[int, ...]:
        """Memories of a tuple-valued op, by result, also of those that nobody uses."""
        out = []
        for i, (d, s) in enumerate(zip(u.dtype, u.shape, strict=True)):  # type: ignore[call-overload]
            get = self.gets.get((u, i))
            size = math.prod(s) * d.itemsize
            out.append(self._new(get) if get is not None else self.block.memory(Home.TEMP, d, size))
        return tuple(out)

    def _launch(self, built: Built) -> Launch:
        numbers = tuple([self.at[u] for u in built.nodes])
        return self._step(built.kernel, numbers)

    def _step(self, kernel: Kernel, numbers: tuple[int, ...]) -> Launch:
        reads = tuple([n for n, b in zip(numbers, kernel.buffers, strict=True) if b.read])
        writes = tuple([n for n, b in zip(numbers, kernel.buffers, strict=True) if b.written])
        step = Launch(reads, writes, kernel=kernel, arguments=numbers)
        self.block.steps.append(step)
        return step

    def _reuse(self, step: Launch) -> None:
        """Note which results may take the memory of an operand."""
        for source, target in same_place(step.kernel):
            old, new = step.arguments[source], step.arguments[target]
            if step.arguments.count(old) == 1:
                self.block.replacements.append(Replacement(None, step, old, new))

    def _copy(self, u: UOp, source: int, target: int) -> CopyStep:
        kernel = build_copy(self.context.name("copy"), u, self.context.limits).kernel
        step = CopyStep((source,), (target,), kernel=kernel, arguments=(source, target))
        self.block.steps.append(step)
        return step

    # ---- clusters
    def _cluster(self, c: Cluster, parts: Partition) -> None:
        own = set(c.nodes)
        # an UPDATE needs a value in memory that reads what it writes over
        values = {under(s) for u in c.nodes if u.op is Op.UPDATE for s in u.src[1:]} & parts.stored

        def is_leaf(u: UOp) -> bool:
            if u in own:
                return False
            if u.op in (Op.PARAM, Op.GET) or u.op in OPAQUE or u in values:
                return True
            # stored views are for those that need them in memory; others look through them
            return u in parts.stored and (u.op in ELEMENTS or u.op is Op.REDUCE)

        stores = [u for u in c.nodes if u in parts.stored]
        name = self.context.name
        if c.kind is ClusterKind.ROW:
            if not stores:
                return
            built = build_rows(name("row"), c, stores, is_leaf, self.context.limits, self.need)
            for u in stores:
                self._new(u)
            self._reuse(self._launch(built))
        elif c.kind is ClusterKind.CONTRACT:
            self._contract(c, stores, is_leaf)
        else:
            self._opaque(c.nodes[0], is_leaf)

    def _contract(self, c: Cluster, stores: list[UOp], is_leaf: Callable[[UOp], bool]) -> None:
        """A contraction, after the kernel that packs its operand if there is one."""
        assert c.contraction is not None
        roots = [*c.contraction.product.src, *c.nodes[1:]]
        nodes = [u for u in read_below(roots, is_leaf) if u is not c.contraction.node]
        if self.need:
            lengths = [n for u in stores for n in self.need[u] if n is not None]
            lengths += lengths_below(c.contraction.product)
            nodes += [n for n in dict.fromkeys(lengths) if n not in nodes]
        buffers = [Buffer(u.dtype, u.size, True, False) for u in nodes]
        buffers += [Buffer(u.dtype, u.size, False, True) for u in stores]
        pairs = [(u, len(nodes) + i) for i, u in enumerate(stores)]
        limits = self.context.limits
        loads = {u: i for i, u in enumerate(nodes)}
        built = contract.build(
            self.context.name("contract"), c.contraction, pairs, tuple(buffers), loads, limits, self.need
        )
        element = contract.element_of(c.contraction.node.dtype)
        assert element is not None
        built.kernel.width = limits.vector_bytes // element.size
        inputs = [self.at[u] for u in nodes]
        outputs = [self._new(u) for u in stores]
        panels: list[int] = []
        if built.pack is not None:
            built.pack.width = built.kernel.width
            panels = [self.block.memory(Home.TEMP, dt.uint8, built.pack.buffers[-1].size)]
            kept = len(built.pack.buffers) - 1
            self._step(built.pack, (*inputs, *outputs, *panels)[:kept] + tuple(panels))
        self._reuse(self._step(built.kernel, (*inputs, *outputs, *panels)))

    def _opaque(self, u: UOp, is_leaf: Callable[[UOp], bool]) -> None:
        limits, name = self.context.limits, self.context.name
        match u.op:
            case Op.PREFIX:
                built = build_prefix(name("prefix"), u, is_leaf, limits)
                self._new(u)
                self._launch(built)
            case Op.UPDATE:
                self._update(u, is_leaf)
            case Op.SORT:
                self._sort(u)
            case Op.SCAN:
                self._scan(u)
            case Op.WHILE:
                self._while(u)
            case Op.COND:
                self._cond(u)
            case _:
                assert u.op is Op.HOST, u.op
                call = (u.arg, tuple([Aval(s.dtype, s.shape) for s in u.src]))
                self.context.hosts.append(self.context.rewritten.get(call, call))
                step = HostStep(self._operands(u), self._results(u), call=len(self.context.hosts) - 1)
                self.block.steps.append(step)

    def _sort(self, u: UOp) -> None:
        """Into the memories of the results that are used, with work space where tasks share a row."""
        gets = [self.gets.get((u, i)) for i in range(len(u.src))]
        kernel = build_sort(self.context.name("sort"), u, tuple([g is not None for g in gets]), self.context.limits)
        memories = [self.at[under(s)] for s in memory_sources(u)]
        memories += [self._new(g) for g in gets if g is not None]
        memories += [self.block.memory(Home.TEMP, b.dtype, b.size) for b in kernel.buffers[len(memories) :]]
        self._step(kernel, tuple(memories))

    def _update(self, u: UOp, is_leaf: Callable[[UOp], bool]) -> None:
        """A copy of the old version, then the part; the copy is dropped where the old memory can be
        used.
        """
        name = self.context.name("update")
        new = self._new(u)
        if u.src[0].op is Op.PARAM and u.src[0].arg[0] == UNDEFINED:
            self._launch(build_update(name, u, is_leaf, self.context.limits)[0])
            return
        old = self.at[under(u.src[0])]
        copy = self._copy(u, old, new)
        built, in_place = build_update(name, u, is_leaf, self.context.limits)
        step = self._launch(built)
        if new not in step.reads:
            step.reads = (*step.reads, new)
        if in_place:
            self.block.replacements.append(Replacement(copy, step, old, new))

    # ---- control flow
    def _operands(self, u: UOp) -> tuple[int, ...]:
        """Memories of an op's sources; of arrays without elements: any."""
        for s in u.src:
            t = under(s)
            if t not in self.at and t.size == 0:
                self.at[t] = self.block.memory(Home.TEMP, t.dtype, 0)
        return tuple([self.at[under(s)] for s in u.src])

    def _scan(self, u: UOp) -> None:
        scan: Scan = u.arg
        body = build_block(scan.body, self.context)
        slots = {j: scan.consts + j for j in range(scan.carry)}
        place(body, slots, exact=True)
        reads, writes = self._operands(u), self._results(u)
        in_place = tuple([body.aliases.get(j) == scan.consts + j for j in range(scan.carry)])
        spare = self._spare(scan.body.outs[: scan.carry], in_place)
        reads = self._start(reads, writes, _carried(in_place, scan.consts), [under(s) for s in u.src])
        work = self.block.memory(Home.TEMP, dt.uint8, body.bytes)
        step = ScanStep(
            reads,
            (*writes, *spare, work),
            scan=scan,
            body=body,
            in_place=in_place,
            spare=spare,
            work=work,
        )
        self._finish(step)

    def _while(self, u: UOp) -> None:
        loop: While = u.arg
        self.context.unbounded = True
        cond, body = build_block(loop.cond, self.context), build_block(loop.body, self.context)
        count = len(loop.body.outs)
        place(cond, {}, exact=True)
        place(body, {j: loop.consts + j for j in range(count)}, exact=True)
        reads, writes = self._operands(u), self._results(u)
        in_place = tuple([body.aliases.get(j) == loop.consts + j for j in range(count)])
        spare = self._spare(loop.body.outs, in_place)
        reads = self._start(reads, writes, _carried(in_place, loop.consts), [under(s) for s in u.src])
        work = self.block.memory(Home.TEMP, dt.uint8, max(cond.bytes, body.bytes))
        flag = self.block.memory(Home.TEMP, dt.bool_, 1)
        step = WhileStep(
            reads, (*writes, *spare, work, flag), loop=loop, cond=cond, body=body, in_place=in_place, spare=spare,
            flag=flag, work=work,
        )  # fmt: skip
        self._finish(step)

    def _spare(self, outs: Sequence[UOp], in_place: tuple[bool, ...]) -> tuple[int, ...]:
        """A second buffer for each carry that does not stay in place (else -1 is left out)."""
        return tuple([
            self.block.memory(Home.TEMP, o.dtype, o.size * o.dtype.itemsize)
            for o, same in zip(outs, in_place, strict=True) if not same
        ])  # fmt: skip

    def _start(
        self, reads: Sequence[int], writes: Sequence[int], same: Mapping[int, int], sources: Sequence[UOp]
    ) -> tuple[int, ...]:
        """Operands that become a result in place (`same`: result -> operand) begin as a copy in its memory."""
        out = list(reads)
        self._pending: list[tuple[CopyStep, int, int]] = []
        for j, i in same.items():
            if sources[i].size:
                copy = self._copy(sources[i], reads[i], writes[j])
                self._pending.append((copy, reads[i], writes[j]))
            out[i] = writes[j]
        return tuple(out)

    def _finish(self, step: Step) -> None:
        self.block.steps.append(step)
        for copy, old, new in self._pending:
            self.block.replacements.append(Replacement(copy, step, old, new))

    def _cond(self, u: UOp) -> None:
        cond: Cond = u.arg
        same: dict[int, int] | None = None  # result -> the operand whose memory it takes in every branch
        while True:
            branches = tuple([build_block(b, self.context) for b in cond.branches])
            same = _taken_over(branches) if same is None else same
            for b in branches:
                place(b, same, exact=True)
            agreed = {j: slot for j, slot in same.items() if all(b.aliases.get(j) == slot for b in branches)}
            if agreed == same:
                break
            same = agreed
        work = self.block.memory(Home.TEMP, dt.uint8, max([b.bytes for b in branches]))
        results = self._results(u)
        index, *operands = self._operands(u)
        reads = self._start(operands, results, same, [under(s) for s in u.src[1:]])
        step = CondStep(
            (index, *reads), (*results, work), index_dtype=u.src[0].dtype, branches=branches, work=work
        )
        self._finish(step)


def _carried(in_place: Sequence[bool], consts: int) -> dict[int, int]:
    """Carries that stay in one buffer: {result: operand}."""
    return {j: consts + j for j, same in enumerate(in_place) if same}


def _taken_over(branches: Sequence[Block]) -> dict[int, int]:
    """Results that every branch could make in the memory of the same operand of theirs: {result: operand}."""
    found: dict[int, int] = {}
    for j in range(len(branches[0].outs)):
        slots = {_first_version(b, b.outs[j]) for b in branches}
        slot = slots.pop()
        if slot is not None and not slots and slot not in found.values():
            found[j] = slot
    return found


def _first_version(block: Block, memory: int) -> int | None:
    """The parameter slot that a memory could have been since the first version of its contents."""
    older = {r.new: r.old for r in block.replacements}
    while memory in older:
        memory = older[memory]
    found = block.memories[memory]
    return found.number if found.home is Home.PARAM else None
