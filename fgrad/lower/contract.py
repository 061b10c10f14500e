"""contract: recognises sums of products that are contractions, and builds their kernels.

C[batch.., m.., n..] = sum over k.. of A[batch.., m.., k..] B[batch.., k.., n..], whatever views lie between: the axes are
sorted by which ranges occur in which factor's index. A REDUCE(ADD) chain over a MUL is a contraction when each summed
range is in both factors, and each factor has a range of its own (or one has, for a matrix times a vector).

`recognise` is asked by the partition for every REDUCE; `build` makes the kernel of a cluster around one: what the
cluster stores is the epilogue, what floats below the factors is evaluated while they are packed. The kernel's tree is
a Call("contract") whose body, plain loops, is its meaning; its operand (`Form`) is what `contract_emit` needs.

What the rest of lowering does for it:
- `build` returns `Built(kernel, pack)`. Where `pack` is not None it is a kernel that runs before, also split into tasks; it
  fills the buffer that is last in both `kernel.buffers` and `pack.buffers` (uint8, `pack.buffers[-1].size` bytes, aligned to
  64): B in panels, private to this pair. Interpreters of the tree may leave both out: the meaning does not read it.
- Micro-kernels are called through the runtime table, which the frame of a kernel holds in word `FRAME_RUNTIME` = 2 (after
  scratch and its size for a worker; the buffers follow). `micro_of(kernels)` lists the modules the table must hold.
- `contract_emit.CALLS_CONTRACT` are the rows for `generate.CALLS`: "contract" and "contract_pack". They add functions beside
  the kernel's own through the emitter's `helpers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fgrad.lower import views
from fgrad.lower.index import ZERO, AtomKind, Cond, Expr, Index, Ranges
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
from fgrad.lower.micro.plan import Access, Plan, make_plan
from fgrad.lower.micro.slots import Micro
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, Kind
from fgrad.uop.node import UOp
from fgrad.uop.op import ELEMENTWISE, LEAVES, Op

MIN_K = 4  # shorter sums are cheaper in a row kernel
MIN_WORK = 512  # multiplications
MIN_MATRIX = 1 << 14  # elements of the matrix in a product with a vector


@dataclass(frozen=True, slots=True, eq=False)
class Contraction:
    """A REDUCE that is one. `inside`: nodes between it and the factors (inner REDUCEs, the MUL), which the kernel absorbs."""

    node: UOp
    product: UOp
    inside: tuple[UOp, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Axes:
    """Ranges sorted: each a tuple of RANGE atoms in order."""

    product: UOp
    inside: tuple[UOp, ...]
    index: Index
    conds: tuple[Cond, ...]
    batch: tuple[int, ...]
    own: tuple[tuple[int, ...], tuple[int, ...]]  # of the first and of the second factor alone
    summed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """A contraction over four linear ranges; expressions are in terms of them (ZERO where the size is 1).

    `a`, `b`: the factors (`a` has no n, `b` no m), evaluated at `index` of the product where their conditions hold, else 0.
    a_view, b_view: the (buffer, address at m = k = 0) when the factor is a strided view of a buffer.
    straight: (store number, address at m = n = 0) when finished tiles may go straight into the output.
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
    a_view: tuple[int, Expr] | None
    b_view: tuple[int, Expr] | None
    straight: Expr | None
    plan: Plan


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """The kernel of a contraction, and the one that must run before it to pack B, if any."""

    kernel: Kernel
    pack: Kernel | None


def element_of(dtype: DType) -> Element | None:
    """What products of `dtype` are carried in; None: not by contraction kernels."""
    if dtype.kind is Kind.FLOAT:
        return Element.F64 if dtype is dt.float64 else Element.F32
    if dtype.is_int:
        return Element.I64 if dtype.itemsize == 8 else Element.I32
    return None


def machine_of(limits: Limits) -> Machine:
    """The machine of micro-kernels for a device."""
    return Machine(limits.vector_bytes, limits.fma, limits.l1, limits.l2)


# ---- recognising
def recognise(node: UOp, private: Callable[[UOp], bool]) -> Contraction | None:
    """`node` as a contraction, or None.

    private(u): whether the compute node u has one consumer and is no output, so that the kernel may swallow it.
    """
    if node.op is not Op.REDUCE or node.arg[0] is not Op.ADD or element_of(node.dtype) is None:
        return None
    if not _leads_to_product(node, private):
        return None
    ranges = Ranges()
    axes = _axes(ranges, node, ranges.ranges(node.shape), private)
    if axes is None:
        return None
    size = _sizer(ranges)
    batch, first, second, k = (
        size(axes.batch),
        size(axes.own[0]),
        size(axes.own[1]),
        size(axes.summed),
    )
    if k < MIN_K or batch * first * second * k < MIN_WORK:
        return None
    if not axes.own[0] or not axes.own[1]:
        if first * second * k < MIN_MATRIX or not _matrix_is_view(ranges, axes):
            return None
    return Contraction(node, axes.product, axes.inside)


def _leads_to_product(node: UOp, private: Callable[[UOp], bool]) -> bool:
    """The cheap half of the test: down from `node` only movement and private sums come before a MUL."""
    x = node.src[0]
    while True:
        while x.op in views.VIEWS:
            x = x.src[0]
        if x.op is Op.MUL:
            return private(x)
        if x.op is not Op.REDUCE or x.arg[0] is not Op.ADD or not private(x):
            return False
        x = x.src[0]


def _axes(ranges: Ranges, node: UOp, index: Index, private: Callable[[UOp], bool]) -> _Axes | None:
    """The ranges of `node[index]` and of its sums, sorted by the factors they occur in."""
    outer: dict[int, None] = {}
    for e in index:
        for t in sorted(_ranges_in(ranges, (e,))):
            outer[t] = None
    inside: list[UOp] = []
    summed: list[int] = []
    conds: list[Cond] = []
    x = node
    while x.op is Op.REDUCE:
        full = list(index)
        for axis in x.arg[1]:
            r = ranges.range(x.src[0].shape[axis])
            full.insert(axis, r)
            summed += [t for t, _ in r[1]]
        index = tuple(full)
        if x is not node:
            inside.append(x)
        x = x.src[0]
        while x.op in views.VIEWS:
            if (
                x.op is Op.EXPAND or x.op is Op.GATHER
            ):  # a sum of copies, or of a choice, is no plain contraction
                return None
            x, index, more = views.step(ranges, x, index)
            conds += more
    if x.op is not Op.MUL:
        return None
    inside.append(x)
    first, second = [_dependence(ranges, f, index) for f in x.src]
    if any(t not in first or t not in second for t in summed):
        return None
    if any(t not in first and t not in second for t in outer):
        return None
    batch = tuple([t for t in outer if t in first and t in second])
    own = tuple([t for t in outer if t not in second]), tuple([t for t in outer if t not in first])
    if not summed or not (own[0] or own[1]):
        return None
    for e, _, _ in conds:  # each condition must belong to one factor
        at = _ranges_in(ranges, (e,))
        if not at.isdisjoint(own[0]) and not at.isdisjoint(own[1]):
            return None
    return _Axes(x, tuple(inside), index, tuple(conds), batch, own, tuple(summed))


def _ranges_in(ranges: Ranges, index: Sequence[Expr]) -> frozenset[int]:
    """The RANGE atoms in these expressions."""
    found: set[int] = set()
    for e in index:
        found |= ranges.bases_of(e)
    return frozenset([t for t in found if ranges.atoms[t].kind is AtomKind.RANGE])


def _dependence(ranges: Ranges, factor: UOp, index: Index) -> frozenset[int]:
    """Ranges that `factor[index]` depends on, seen through views down to the first node that computes."""
    found: set[int] = set()
    while factor.op in views.VIEWS:
        factor, index, conds = views.step(ranges, factor, index)
        found |= _ranges_in(ranges, [e for e, _, _ in conds])
    if factor.op is not Op.CONST:
        found |= _ranges_in(ranges, index)
    return frozenset(found)


def _sizer(ranges: Ranges) -> Callable[[Sequence[int]], int]:
    return lambda atoms: math.prod([ranges.atoms[t].hi + 1 for t in atoms])


def _matrix_is_view(ranges: Ranges, axes: _Axes) -> bool:
    """Whether the factor that has ranges of its own is memory, or will be, read in order."""
    which = 0 if axes.own[0] else 1
    factor, index = axes.product.src[which], axes.index
    while factor.op in views.VIEWS:
        factor, index, conds = views.step(ranges, factor, index)
        if conds:
            return False
    if (
        factor.op in ELEMENTWISE
        or factor.op in LEAVES
        and factor.op is not Op.PARAM
        and factor.op is not Op.BUFFER
    ):
        return False
    coefficients = dict(ranges.address(index, factor.shape)[1])
    return any(coefficients.get(t) == 1 for t in (axes.own[which][-1], axes.summed[-1]))


# ---- building
def build(
    name: str,
    contraction: Contraction,
    stored: Sequence[tuple[UOp, int]],
    buffers: tuple[Buffer, ...],
    loads: Mapping[UOp, int],
    limits: Limits,
) -> Built:
    """The kernels that compute `contraction` and from it the `stored` (node, buffer number) of its cluster.

    loads: nodes that are read from memory, with their buffer numbers. Every stored node is elementwise over the
    contraction, of one shape with it up to axes of size 1, or all of them sit above one permuting view of it.
    """
    ranges = Ranges()
    root = stored[-1][0]
    at = ranges.ranges(root.shape)
    index = _index_of(ranges, contraction.node, root, at, loads)
    assert index is not None, "a stored node that does not use its contraction"
    axes = _axes(ranges, contraction.node, index, lambda _: True)
    assert axes is not None
    order = {t: i for i, t in enumerate([e[1][0][0] for e in at if e[1]])}
    a, b = axes.product.src
    rows, columns = axes.own
    if (
        not columns
        or rows
        and max(map(order.__getitem__, rows)) > max(map(order.__getitem__, columns))
    ):
        a, b, rows, columns = b, a, columns, rows  # the last axis of the output is in lanes
    groups = [tuple(sorted(g, key=order.__getitem__)) for g in (axes.batch, rows, columns)] + [
        axes.summed
    ]
    size = _sizer(ranges)
    sizes = [size(g) for g in groups]
    linear = [ranges.range(s) for s in sizes]
    new: dict[int, Expr] = {}
    for group, e in zip(groups, linear, strict=True):
        new.update(
            zip(group, ranges.delinear(e, [ranges.atoms[t].hi + 1 for t in group]), strict=True)
        )
    product_index = tuple([ranges.substitute(e, new) for e in axes.index])
    conds = tuple([(ranges.substitute(e, new), lo, hi) for e, lo, hi in axes.conds])
    n_atoms = _ranges_in(ranges, (linear[2],))
    a_conds = tuple([c for c in conds if n_atoms.isdisjoint(ranges.bases_of(c[0]))])
    b_conds = tuple([c for c in conds if c not in a_conds])
    root_index = tuple([ranges.substitute(e, new) for e in at])
    stores = tuple([_store(ranges, node, number, root, root_index) for node, number in stored])
    element = element_of(contraction.node.dtype)
    assert element is not None
    batch, m, n, k = linear
    a_view, a_access = _view(ranges, a, product_index, a_conds, m, k, element, buffers, loads)
    b_view, b_access = _view(ranges, b, product_index, b_conds, n, k, element, buffers, loads)
    straight, ldc = _straight(ranges, contraction.node, stores, m, n, element)
    plan = make_plan(
        machine_of(limits), element, sizes[0], sizes[1], sizes[2], sizes[3], a_access, b_access, ldc
    )
    form = Form(
        contraction.node, element, axes.product, a, b, product_index, a_conds, b_conds, batch, m, n, k,
        (sizes[0], sizes[1], sizes[2], sizes[3]), stores, a_view, b_view, straight, plan,
    )  # fmt: skip
    return _kernels(name, ranges, buffers, loads, form, limits)


def _kernels(
    name: str,
    ranges: Ranges,
    buffers: tuple[Buffer, ...],
    loads: Mapping[UOp, int],
    form: Form,
    limits: Limits,
) -> Built:
    plan = form.plan
    flops = 2 * math.prod(form.sizes)
    moved = sum([x.size * x.dtype.itemsize for x in buffers])
    pack = None
    if plan.packed:
        size = form.element.size
        inputs = tuple([replace(x, written=False) for x in buffers])
        block = Scratch(
            dt.uint8, max(plan.width, machine_of(limits).height(size)) * limits.vector_bytes
        )
        copied = form.sizes[2] * form.sizes[3] * size
        pack = Kernel(
            f"{name}_pack", ranges, (*inputs, Buffer(dt.uint8, plan.packed, False, True)), loads,
            (Call("contract_pack", (), (form,)),), (block,), plan.pack_tasks, 0, 2 * copied, copied / 8,
        )  # fmt: skip
        buffers = (*buffers, Buffer(dt.uint8, plan.packed, True, False))
    scratch = (Scratch(dt.uint8, plan.scratch),)
    work = max(flops / (100 if form.element.size == 4 else 50), moved / 10)
    call = Call("contract", meaning(form), (form,))
    return Built(
        Kernel(
            name,
            ranges,
            buffers,
            loads,
            (call,),
            scratch,
            plan.batch * plan.units,
            flops,
            moved,
            work,
        ),
        pack,
    )


def micro_of(kernels: Iterable[Kernel]) -> tuple[Micro, ...]:
    """The modules of micro-kernels that these kernels call, each once."""
    found: dict[Micro, None] = {}
    for kernel in kernels:
        for s in kernel.body:
            if isinstance(s, Call) and s.operands and isinstance(s.operands[0], Form):
                found.update(dict.fromkeys(s.operands[0].plan.micro))
    return tuple(found)


def meaning(form: Form) -> tuple[Stmt, ...]:
    """The contraction as plain loops."""
    acc = Acc(form.node, Op.ADD)
    fold = Fold(acc, form.product, form.index, (*form.a_conds, *form.b_conds))
    body: tuple[Stmt, ...] = (
        Reduction((acc,), _loop(form.k, form.sizes[3], (fold,))),
        *form.stores,
    )
    for e, size in zip(
        (form.n, form.m, form.batch), (form.sizes[2], form.sizes[1], form.sizes[0]), strict=True
    ):
        body = _loop(e, size, body)
    return body


def _loop(e: Expr, size: int, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return (Loop(e[1][0][0], size, LoopKind.SEQ, body),) if e[1] else body


def _index_of(
    ranges: Ranges, node: UOp, root: UOp, at: Index, loads: Mapping[UOp, int]
) -> Index | None:
    """The index at which `root[at]` uses `node`."""
    stack: list[tuple[UOp, Index]] = [(root, at)]
    seen: set[UOp] = set()
    while stack:
        u, index = stack.pop()
        if u is node:
            return index
        if u in seen or u in loads:
            continue
        seen.add(u)
        if u.op in views.VIEWS:
            source, index, _ = views.step(ranges, u, index)
            stack.append((source, index))
        elif u.op in ELEMENTWISE:
            stack += [(s, index) for s in u.src]
    return None


def _store(ranges: Ranges, node: UOp, number: int, root: UOp, root_index: Index) -> Store:
    """`node` at the same place as the root; their shapes differ in axes of size 1 only."""
    rest = iter([e for e, n in zip(root_index, root.shape, strict=True) if n != 1])
    index = tuple([next(rest) if n != 1 else ZERO for n in node.shape])
    return Store(number, ranges.address(index, node.shape), node, index)


def _view(
    ranges: Ranges, factor: UOp, index: Index, conds: tuple[Cond, ...], outer: Expr, k: Expr, element: Element,
    buffers: tuple[Buffer, ...], loads: Mapping[UOp, int],
) -> tuple[tuple[int, Expr] | None, Access]:  # fmt: skip
    """How `factor` lies in memory: ((buffer, address at outer = k = 0), strides), or (None, generated)."""
    generated = None, Access(generated=True)
    if conds:
        return generated
    while factor not in loads:
        if factor.op not in views.VIEWS:
            return generated
        factor, index, more = views.step(ranges, factor, index)
        if more:
            return generated
    number = loads[factor]
    if element_of(factor.dtype) is not element or factor.dtype.itemsize != element.size:
        return generated
    outer_stride, step, rest = _strides(ranges, ranges.address(index, factor.shape), outer, k)
    if rest is None or outer_stride < 0 or step < 0:
        return generated
    return (number, rest), Access(outer_stride, step)


def _strides(ranges: Ranges, e: Expr, x: Expr, y: Expr) -> tuple[int, int, Expr | None]:
    """(coefficient of x, of y, the rest), the rest None if it depends on them otherwise."""
    atoms = [v[1][0][0] if v[1] else -1 for v in (x, y)]
    terms = dict(e[1])
    first, second = [terms.pop(t, 0) for t in atoms]
    rest: Expr = (e[0], tuple(sorted(terms.items())))
    return (first, second, rest) if ranges.bases_of(rest).isdisjoint(atoms) else (0, 0, None)


def _straight(
    ranges: Ranges, node: UOp, stores: tuple[Store, ...], m: Expr, n: Expr, element: Element
) -> tuple[Expr | None, int]:
    """(address at m = n = 0, row stride) when the only store is of the sum itself, neighbours in n together."""
    if len(stores) != 1 or stores[0].value is not node or node.dtype.itemsize != element.size:
        return None, 0
    row, column, rest = _strides(ranges, stores[0].address, m, n)
    if rest is None or (n[1] and column != 1) or (m[1] and row <= 0):
        return None, 0
    return rest, row or 1
