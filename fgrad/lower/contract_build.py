"""contract_build: kernels of contractions, as trees and as descriptions for the driver of
micro-kernels.

What the cluster stores is the epilogue of the kernel; what floats below the factors is evaluated
while they are packed. The tree is a Call("contract") whose body, plain loops, is its meaning; its
operand (`Form`) is what `contract_emit` and `contract_pack` need.

What the rest of lowering does for it:
- `Built.pack`, where not None, is a kernel that runs before, also in tasks. Its buffers are those
  of `loads`, then one more, which `kernel.buffers` has at its end too: uint8, `buffers[-1].size`
  bytes, aligned to 64, private to the pair (B in panels). Interpreters of the tree may leave the
  pack kernel and that buffer out: the meaning does not read it.
- `micro_of(kernels)` lists the modules that the runtime table must hold when the program runs.
- `contract_emit.CALLS_CONTRACT` are rows for `generate.CALLS`; they add functions through the
  emitter's `helpers`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fgrad.lower import views
from fgrad.lower.contract_find import Axes, Contraction, element_of, find_axes, ranges_in
from fgrad.lower.contract_views import index_above, index_below, lane_step, split_strides, stride_of
from fgrad.lower.cost import MAX_TASKS
from fgrad.lower.index import ZERO, Cond, Expr, Index, Ranges, add, scale
from fgrad.lower.kernel import (
    Acc,
    Buffer,
    Call,
    Fold,
    Kernel,
    Loop,
    LoopKind,
    Reduction,
    Scratch,
    Stmt,
    Store,
)
from fgrad.lower.limits import Limits
from fgrad.lower.micro.machine import Element, Machine
from fgrad.lower.micro.plan import ONE_BLOCK, Access, Plan, make_plan
from fgrad.lower.micro.slots import Micro
from fgrad.lower.need import Lengths, length_of_product
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

FLOPS_PER_NS = {Element.F32: 100.0, Element.F64: 50.0, Element.I32: 25.0, Element.I64: 6.0}
NS_PER_BYTE = 0.08
LONGEST_RUN = 256  # steps of k that packing takes in loops of their own
LONG_SUM = 1024  # steps of k from which packing costs more than an output that is written across
TASK_NS = 6000  # work of a task: less than elsewhere, contractions are bound by arithmetic


@dataclass(frozen=True, slots=True)
class Ends:
    """From where on nobody wants entries, rows or columns, and steps of k change nothing; None: all count."""

    batch: Expr | None = None
    m: Expr | None = None
    n: Expr | None = None
    k: Expr | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """A contraction over four linear ranges; expressions are in terms of them (ZERO where the size
    is 1).

    `a`, `b`: the factors (`a` has no n, `b` no m), evaluated at `index` of the product where their
    conditions hold, else 0. a_view, b_view: (the node in memory, its address at m = n = k = 0) when
    the factor is a strided view of it. straight: address in the only output at m = n = 0, when
    finished tiles may go straight there.
    """

    node: UOp
    element: Element
    product: UOp
    a: UOp
    b: UOp
    index: Index
    a_conds: tuple[Cond, ...]
    b_conds: tuple[Cond, ...]
    batch: Expr
    m: Expr
    n: Expr
    k: Expr
    sizes: tuple[int, int, int, int]  # batch, m, n, k
    stores: tuple[Store, ...]
    a_view: tuple[UOp, Expr] | None
    b_view: tuple[UOp, Expr] | None
    a_across: bool  # evaluate a, where it is no view, with lanes along k
    b_across: bool
    a_uneven: bool  # vectors of k lie in a at places that are costly to compute from their number
    run: tuple[int, ...]  # sizes of the last ranges of k, where packing loops over them; a block is whole runs
    straight: Expr | None
    plan: Plan
    ends: Ends


@dataclass(slots=True, eq=False)
class Built:
    """The kernel of a contraction, and the one that must run before it to pack B, if any."""

    kernel: Kernel
    pack: Kernel | None = None


def machine_of(limits: Limits) -> Machine:
    """The machine of micro-kernels for a device."""
    return Machine(limits.vector_bytes, limits.fma, limits.l1, limits.l2)


def build(
    name: str,
    contraction: Contraction,
    stored: Sequence[tuple[UOp, int]],
    buffers: Sequence[Buffer],
    loads: Mapping[UOp, int],
    limits: Limits,
    need: Mapping[UOp, Lengths] | None = None,
) -> Built:
    """The kernels that compute `contraction` and from it the `stored` (node, buffer number).

    buffers  first those of `loads` (the nodes read from memory), then those of `stored`, in order
    need     how much of the stored nodes is wanted, see `need`

    Every stored node is elementwise over the contraction and has its shape up to axes of size 1; or
    the contraction is read through one chain of views only, and all stored nodes lie above it, of
    one shape up to axes of size 1.
    """
    builder = _Builder(name, contraction, stored, buffers, loads, limits, need or {})
    form = builder.form()
    if form is None:
        return Built(builder.plain_kernel())
    pack = None
    if form.plan.packed:
        # from a builder of its own: the two share no ranges, so writing one does not change the
        # other's key
        other = _Builder(name, contraction, stored, buffers, loads, limits, need or {})
        again = other.form()
        assert again is not None
        pack = other.pack_kernel(again)
    return Built(builder.kernel(form), pack)


def micro_of(kernels: Iterable[Kernel]) -> tuple[Micro, ...]:
    """The modules of micro-kernels that these kernels call, each once."""
    found: dict[Micro, None] = {}
    for kernel in kernels:
        for s in kernel.body:
            if isinstance(s, Call) and s.operands and isinstance(s.operands[0], Form):
                found.update(dict.fromkeys(s.operands[0].plan.micro))
    return tuple(found)


class _Builder:
    def __init__(
        self,
        name: str,
        contraction: Contraction,
        stored: Sequence[tuple[UOp, int]],
        buffers: Sequence[Buffer],
        loads: Mapping[UOp, int],
        limits: Limits,
        need: Mapping[UOp, Lengths],
    ) -> None:
        self.need = need
        self.name = name
        self.node = contraction.node
        self.product = contraction.product
        self.stored = stored
        self.root = stored[-1][0]
        self.buffers = tuple(buffers)
        self.loads = loads
        self.limits = limits
        self.ranges = Ranges()
        element = element_of(self.node.dtype)
        assert element is not None
        self.element = element
        self.padded = False  # whether some places of the root hold nothing of the sum

    def is_leaf(self, u: UOp) -> bool:
        return u in self.loads

    def form(self) -> Form | None:
        """The contraction in linear ranges; None if views above it mix its axes in ways that no
        contraction has."""
        found = self._by_own_axes() or self._by_root_axes()
        return None if found is None else self._linear(*found)

    def _by_own_axes(self) -> tuple[Axes, Index] | None:
        """Over the places of the sum: (axes, the root's index); None if views cut or repeat it."""
        ranges = self.ranges
        own = ranges.ranges(self.node.shape)
        at = index_above(ranges, self.node, own, self.root, self.is_leaf)
        axes = find_axes(ranges, self.node, own, lambda _: True)
        assert axes is not None
        return None if at is None else (axes, at)

    def _by_root_axes(self) -> tuple[Axes, Index] | None:
        """Over the places of the root: only what is left of the sum is computed."""
        ranges = self.ranges
        at = ranges.ranges(self.root.shape)
        found = index_below(ranges, self.node, self.root, at, self.is_leaf)
        assert found is not None, "a stored node that does not use its contraction"
        index, conds = found
        self.padded = bool(ranges.conditions(conds))
        if ranges_in(ranges, index) != ranges_in(ranges, at):
            return None
        axes = find_axes(ranges, self.node, index, lambda _: True, ranges.conditions(conds))
        return None if axes is None else (axes, at)

    def _linear(self, axes: Axes, at: Index) -> Form:
        ranges, root = self.ranges, self.root
        address = ranges.address(at, root.shape)
        outer = (*axes.batch, *axes.own[0], *axes.own[1])
        stride = {t: stride_of(ranges, address, t) for t in outer}
        a, b = axes.product.src
        rows, columns = axes.own
        if not columns or (
            rows and min(map(stride.__getitem__, rows)) < min(map(stride.__getitem__, columns))
        ):
            # what is contiguous in the output is in lanes
            a, b, rows, columns = b, a, columns, rows
        groups = [sorted(g, key=lambda t: (-stride[t], t)) for g in (axes.batch, rows, columns)]
        if self._packs_better_in_lanes(axes, a, groups[1], groups[2]):
            a, b, groups = b, a, [groups[0], groups[2], groups[1]]
        groups.append(self._depth_order(axes, (b, a)))
        sizes = [math.prod([ranges.atoms[t].hi + 1 for t in g]) for g in groups]
        linear = [ranges.range(s) for s in sizes]
        new: dict[int, Expr] = {}
        for group, e in zip(groups, linear, strict=True):
            parts = ranges.delinear(e, [ranges.atoms[t].hi + 1 for t in group])
            new.update(zip(group, parts, strict=True))
        lengths = [*[self._wanted(at)] * 3, self._counting(axes)]
        ends = Ends(*[self._end(g, known) for g, known in zip(groups, lengths, strict=True)])
        summed = [ranges.atoms[t].hi + 1 for t in groups[3]]
        return self._form(axes, a, b, linear, sizes, new, at, ends, summed)

    def _packs_better_in_lanes(self, axes: Axes, a: UOp, rows: Sequence[int], columns: Sequence[int]) -> bool:
        """Whether `a` should rather have the columns: in a long sum packing costs more than what is done to the output.

        Column panels are whole vectors, which lie within the last range of `a`; row panels start anywhere.
        """
        ranges, lanes = self.ranges, self.limits.vector_bytes // self.element.size
        depth = math.prod([ranges.atoms[t].hi + 1 for t in axes.summed])
        if len(rows) < 2 or len(columns) > 1 or depth < LONG_SUM or (ranges.atoms[rows[-1]].hi + 1) % lanes:
            return False
        index = axes.index
        while not self.is_leaf(a) and a.op in views.VIEWS:
            a, index, conds = views.step(ranges, a, index)
            if any(rows[-1] in ranges.bases_of(e) for e, _, _ in conds):
                return False
        return stride_of(ranges, ranges.address(index, a.shape), rows[-1]) == 1

    def _wanted(self, at: Index) -> dict[int, UOp]:
        """RANGE atom of the root's index -> how far anybody wants the stores."""
        known: dict[int, list[UOp | None]] = {}
        places = [e for e, n in zip(at, self.root.shape, strict=True) if n != 1]
        for u, _ in self.stored:
            axes = [i for i, n in enumerate(u.shape) if n != 1]
            for e, i in zip(places, axes, strict=True):
                if e[0] == 0 and len(e[1]) == 1 and e[1][0][1] == 1:
                    known.setdefault(e[1][0][0], []).append(self.need[u][i] if u in self.need else None)
        return {t: n[0] for t, n in known.items() if n[0] is not None and all(m is n[0] for m in n)}

    def _counting(self, axes: Axes) -> dict[int, UOp]:
        """RANGE atom of the sum -> from where on both factors are 0."""
        out = {}
        for i, e in enumerate(axes.index):
            n = length_of_product(axes.product, i) if self.need and e[0] == 0 and len(e[1]) == 1 else None
            if n is not None and e[1][0][1] == 1:
                out[e[1][0][0]] = n
        return out

    def _lengths(self, index: Index, summed: Sequence[int]) -> list[Cond]:
        """Where the elements of the product are known, as far as its sums go: beyond they need not be there."""
        ranges = self.ranges
        out: list[Cond] = []
        for i, (e, size) in enumerate(zip(index, self.product.shape, strict=True)):
            n = length_of_product(self.product, i) if self.need and e[1] else None
            if n is not None and all(t in summed for t, _ in e[1]):
                out.append((add(e, ranges.value(n, (), 0, size), -1), -size, 0))
        return out

    def _end(self, group: Sequence[int], lengths: Mapping[int, UOp]) -> Expr | None:
        """Where a linear range over these atoms ends: that of its first one decides."""
        n = lengths.get(group[0]) if group else None
        if n is None or n not in self.loads:
            return None
        sizes = [self.ranges.atoms[t].hi + 1 for t in group]
        return scale(self.ranges.value(n, (), 0, sizes[0]), math.prod(sizes[1:]))

    def _depth_order(self, axes: Axes, factors: tuple[UOp, UOp]) -> list[int]:
        """The summed ranges, those that are contiguous in the factors last."""
        ranges = self.ranges
        strides = []
        for u in factors:
            index = axes.index
            while u.op in views.VIEWS and not self.is_leaf(u):
                u, index, _ = views.step(ranges, u, index)
            address = ranges.address(index, u.shape)
            strides.append({t: stride_of(ranges, address, t) for t in axes.summed})
        return sorted(axes.summed, key=lambda t: (-min(s[t] for s in strides), -strides[1][t], t))

    def _form(
        self,
        axes: Axes,
        a: UOp,
        b: UOp,
        linear: list[Expr],
        sizes: list[int],
        new: dict[int, Expr],
        at: Index,
        ends: Ends,
        summed: list[int],
    ) -> Form:
        ranges = self.ranges
        batch, m, n, k = linear
        index = tuple([ranges.substitute(e, new) for e in axes.index])
        conds = tuple([(ranges.substitute(e, new), lo, hi) for e, lo, hi in axes.conds])
        n_atoms = ranges_in(ranges, (n,))
        a_conds = tuple([c for c in conds if n_atoms.isdisjoint(ranges.bases_of(c[0]))])
        b_conds = tuple([c for c in conds if c not in a_conds])
        if ends.k is not None:  # then all that ends with k has its end in the descriptor
            ranges.limits[k[1][0][0]] = ends.k
        known = [(ranges.substitute(e, new), lo, hi) for e, lo, hi in self._lengths(axes.index, axes.summed)]
        known = list(ranges.conditions(known))
        ranges.limits.clear()  # factors are evaluated beyond it, too
        a_conds, b_conds = (*a_conds, *known), (*b_conds, *known)
        root_index = tuple([ranges.substitute(e, new) for e in at])
        stores = tuple([self._store(u, number, root_index) for u, number in self.stored])
        a_view, a_access = self._view(a, index, a_conds, m, k)
        b_view, b_access = self._view(b, index, b_conds, n, k)
        if a_access.generated:
            a_access = replace(a_access, across=self._better_along_k(a, index, a_conds, m, k))
        if b_access.generated:
            b_access = replace(b_access, across=self._better_along_k(b, index, b_conds, n, k))
        straight, ldc = self._straight(stores, m, n)
        machine = machine_of(self.limits)
        entries, rows, columns, depth = sizes
        run: tuple[int, ...] = ()
        if ends.k is None and (a_access.generated or b_access.generated):
            run = _run(summed, machine.lanes(self.element.size), depth <= ONE_BLOCK)
        plan = make_plan(
            machine, self.element, entries, rows, columns, depth, a_access, b_access, ldc, math.prod(run)
        )
        return Form(
            node=self.node,
            element=self.element,
            product=axes.product,
            a=a,
            b=b,
            index=index,
            a_conds=a_conds,
            b_conds=b_conds,
            batch=batch,
            m=m,
            n=n,
            k=k,
            sizes=(entries, rows, columns, depth),
            stores=stores,
            a_view=a_view,
            b_view=b_view,
            a_across=a_access.across,
            b_across=b_access.across,
            a_uneven=self._uneven(a, index, a_conds, k),
            run=run,
            straight=straight,
            plan=plan,
            ends=ends,
        )

    def _store(self, node: UOp, number: int, root_index: Index) -> Store:
        """`node` at the place of the root; their shapes differ in axes of size 1 only."""
        rest = iter([e for e, n in zip(root_index, self.root.shape, strict=True) if n != 1])
        index = tuple([next(rest) if n != 1 else ZERO for n in node.shape])
        return Store(number, self.ranges.address(index, node.shape), node, index)

    def _view(
        self, factor: UOp, index: Index, conds: tuple[Cond, ...], outer: Expr, k: Expr
    ) -> tuple[tuple[UOp, Expr] | None, Access]:
        """How `factor` lies in memory: ((node, address at outer = k = 0), strides), or (None,
        generated)."""
        generated = None, Access(generated=True)
        if conds:
            return generated
        ranges = self.ranges
        while not self.is_leaf(factor):
            if factor.op not in views.VIEWS:
                return generated
            factor, index, more = views.step(ranges, factor, index)
            if more:
                return generated
        if (
            element_of(factor.dtype) is not self.element
            or factor.dtype.itemsize != self.element.size
        ):
            return generated
        over, step, rest = split_strides(ranges, ranges.address(index, factor.shape), outer, k)
        if rest is None or over < 0 or step < 0:
            return generated
        return (factor, rest), Access(over, step)

    def _straight(self, stores: tuple[Store, ...], m: Expr, n: Expr) -> tuple[Expr | None, int]:
        """(address at m = n = 0, row stride) when only the sum itself or a view of it is stored,
        neighbours in n together."""
        value = self.root
        while value is not self.node and value.op in views.VIEWS:
            value = value.src[0]
        if len(stores) != 1 or value is not self.node or self.padded:
            return None, 0
        if self.node.dtype.itemsize != self.element.size:
            return None, 0
        row, column, rest = split_strides(self.ranges, stores[0].address, m, n)
        if rest is None or (n[1] and column != 1) or (m[1] and row <= 0):
            return None, 0
        return rest, row or 1

    def _better_along_k(
        self, u: UOp, index: Index, conds: tuple[Cond, ...], outer: Expr, k: Expr
    ) -> bool:
        """Whether vectors along k read memory better than vectors along the panel."""
        if not outer[1]:
            return False
        ranges, lanes = self.ranges, self.limits.vector_bytes // self.element.size
        seen = self._accesses(u, index, conds)
        scores = []
        for e in (outer, k):
            lane = ranges.range(lanes)
            size = ranges.bounds(e)[1] // lanes + 1
            vector = add(scale(ranges.range(max(size, 2)), lanes), lane)
            score = 0
            for x, is_condition in seen:
                step = lane_step(ranges, x, e[1][0][0], vector, lane[1][0][0])
                if is_condition:
                    score -= 100 if step is None else 0
                else:
                    score += -20 if step is None else {1: 10, 0: 1}.get(step, -10)
            scores.append(score)
        return scores[1] > scores[0]

    def _uneven(self, u: UOp, index: Index, conds: tuple[Cond, ...], k: Expr) -> bool:
        """Whether evaluating `u[index]` takes quotients or remainders of k."""
        t, ranges = k[1][0][0], self.ranges
        return any(
            atom != t and t in ranges.bases(atom)
            for e, _ in self._accesses(u, index, conds)
            for atom, _ in e[1]
        )

    def _accesses(self, u: UOp, index: Index, conds: tuple[Cond, ...]) -> list[tuple[Expr, bool]]:
        """The addresses that evaluating `u[index]` reads, and its conditions: (expression, is a
        condition)."""
        out: list[tuple[Expr, bool]] = [(c[0], True) for c in conds]
        stack = [(u, index)]
        seen = set(stack)
        while stack:
            u, index = stack.pop()
            below = []
            if self.is_leaf(u):
                out.append((self.ranges.address(index, u.shape), False))
            elif u.op in views.VIEWS:
                source, inner, more = views.step(self.ranges, u, index)
                out += [(c[0], True) for c in more]
                below.append((source, inner))
            elif u.op is not Op.IOTA:
                below += [(s, index) for s in u.src]
            for key in below:
                if key not in seen:
                    seen.add(key)
                    stack.append(key)
        return out

    # ---- kernels
    def kernel(self, form: Form) -> Kernel:
        plan, size = form.plan, form.element.size
        buffers = self.buffers
        flops = 2 * math.prod(form.sizes)
        moved = sum([x.size * x.dtype.itemsize for x in buffers])
        if plan.packed:
            buffers = (*buffers, Buffer(dt.uint8, plan.packed, True, False))
        items = plan.batch * plan.units
        work = max(flops / FLOPS_PER_NS[form.element], moved * NS_PER_BYTE)
        tasks = max(1, min(int(work / TASK_NS), MAX_TASKS, items))
        tasks = -(-items // -(-items // tasks))
        return Kernel(
            self.name,
            self.ranges,
            buffers,
            self.loads,
            (Call("contract", meaning(form), (form,)),),
            (Scratch(dt.uint8, plan.scratch),),
            tasks,
            flops,
            moved,
            work if form.ends == Ends() else work / 4,  # as in `rows`
            self.limits.vector_bytes // size,
        )

    def pack_kernel(self, form: Form) -> Kernel:
        plan, size = form.plan, form.element.size
        buffers = (*self.buffers[: len(self.loads)], Buffer(dt.uint8, plan.packed, False, True))
        height = machine_of(self.limits).height(size)
        block = Scratch(dt.uint8, max(plan.width, height) * self.limits.vector_bytes)
        copied = 2 * form.sizes[2] * form.sizes[3] * size
        return Kernel(
            f"{self.name}_pack",
            self.ranges,
            buffers,
            self.loads,
            (Call("contract_pack", (), (form,)),),
            (block,),
            plan.pack_tasks,
            0,
            copied,
            copied * NS_PER_BYTE,
            self.limits.vector_bytes // size,
        )

    def plain_kernel(self) -> Kernel:
        """Loops over the last stored node: for views above the contraction that do not lead back to
        its own place."""
        ranges, root = self.ranges, self.root
        at = ranges.ranges(root.shape)
        found = index_below(ranges, self.node, root, at, self.is_leaf)
        assert found is not None, "a stored node that does not use its contraction"
        index, conds = found
        inner: list[Expr] = []
        x = self.node
        while x is not self.product:
            if x.op is Op.REDUCE:
                full = list(index)
                for axis in x.arg[1]:
                    inner.append(ranges.range(x.src[0].shape[axis]))
                    full.insert(axis, inner[-1])
                x, index = x.src[0], tuple(full)
            else:
                x, index, more = views.step(ranges, x, index)
                conds += more
        acc = Acc(self.node, Op.ADD)
        conds += self._lengths(index, [t for e in inner for t, _ in e[1]])
        body: tuple[Stmt, ...] = (Fold(acc, self.product, index, ranges.conditions(conds)),)
        for e in inner:
            body = _loop(e, ranges, body)
        stores = [self._store(u, number, at) for u, number in self.stored]
        body = (Reduction((acc,), body), *stores)
        for e in reversed(at):
            body = _loop(e, ranges, body)
        buffers = self.buffers
        flops = 2 * root.size * math.prod([ranges.bounds(e)[1] + 1 for e in inner])
        return Kernel(
            self.name,
            ranges,
            buffers,
            self.loads,
            body,
            (),
            1,
            flops,
            sum([x.size * x.dtype.itemsize for x in buffers]),
            flops / 1.0,
            1,
        )


def meaning(form: Form) -> tuple[Stmt, ...]:
    """The contraction as plain loops."""
    acc = Acc(form.node, Op.ADD)
    body: tuple[Stmt, ...] = (Fold(acc, form.product, form.index, (*form.a_conds, *form.b_conds)),)
    body = (Reduction((acc,), _sized_loop(form.k, form.sizes[3], body)), *form.stores)
    for e, size in zip((form.n, form.m, form.batch), form.sizes[2::-1], strict=True):
        body = _sized_loop(e, size, body)
    return body


def _run(summed: Sequence[int], lanes: int, one_block: bool) -> tuple[int, ...]:
    """The last of several ranges of k, as many as blocks of k have room for: each of them a loop, where k is packed."""
    run: tuple[int, ...] = ()
    for n in reversed(summed if len(summed) > 1 else ()):
        size = n * math.prod(run)
        if size > LONGEST_RUN or not one_block and math.lcm(size, lanes, 16) > LONGEST_RUN:
            break
        run = (n, *run)
    return run


def _sized_loop(e: Expr, size: int, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return (Loop(e[1][0][0], size, LoopKind.SEQ, body),) if e[1] else body


def _loop(e: Expr, ranges: Ranges, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return _sized_loop(e, ranges.bounds(e)[1] + 1, body)
