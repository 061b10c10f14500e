"""contract_emit: LLVM text of a contraction: its descriptor, the call of the driver, packing and
epilogue functions.

Only what differs between contractions is generated: a stub of some twenty lines, the epilogue, and
a packing function for each factor that is not a strided view. Everything else is in the
micro-kernels, reached through the runtime table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from fgrad.lower.alu import element
from fgrad.lower.contract_build import Form
from fgrad.lower.emit import I64
from fgrad.lower.generate import Writer
from fgrad.lower.index import Expr, add, scale
from fgrad.lower.kernel import Call, Store
from fgrad.lower.lanes import VectorBinding
from fgrad.lower.micro.driver import D
from fgrad.lower.micro.machine import Element
from fgrad.lower.micro.slots import GEMM, GEMV, PACK_B, pack_slot
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp

UNROLLED = 12  # vectors of k written out where their indices are uneven
UNROLLED_RUN = 4  # steps of the innermost range of k written out
FRAME_RUNTIME = 2  # word of a kernel's frame
_EPILOGUE = "ptr noalias %f, ptr noalias %tile, i64 %first, i64 %rows, i64 %j, i64 %batch"
_PACK = (
    "ptr noalias %f, ptr noalias %panel, i64 %number, i64 %k0, i64 %k, i64 %batch, "
    "ptr noalias %block"
)


# ---- the kernels' own functions
def write_contract(w: Writer, call: Call) -> None:
    """Body of the kernel: one task is one unit of one batch entry."""
    form = _form(call)
    items, e = form.plan.batch * form.plan.units, w.e
    per = -(-items // w.kernel.tasks)
    first: I64 = e.mul("%task", per) if w.kernel.tasks > 1 else 0
    functions = _Functions(w, form)
    last = e.minimum(e.add(first, per), items)

    def units() -> list[tuple[str, str]]:
        w.ev.memo.append({})
        _each(w, first, last, lambda item: _unit(w, form, functions, item))
        w.ev.memo.pop()
        return []

    if form.ends.batch is None:
        units()
        return
    last = e.minimum(last, e.mul(w.ev.i64(form.ends.batch), form.plan.units))
    e.branch(e.value(f"icmp slt i64 {first}, {last}", first, last), units)


class _Functions:
    """Names of the functions beside a contraction kernel; "null" where it needs none."""

    def __init__(self, w: Writer, form: Form) -> None:
        name, plan = w.kernel.name, form.plan
        self.descriptor = _descriptor_now(w, form)
        self.epilogue = self.pack_a = self.pack_b = self.line = "null"
        if not plan.all_straight:
            self.epilogue = _epilogue(w, form, f"{name}_epilogue")
        if plan.vector_form:
            if plan.line_at is not None:
                self.line = _line(w, form, f"{name}_line")
            return
        if form.a_view is None:
            self.pack_a = _pack(w, form, False, f"{name}_pack_a")
        if form.b_view is None and not plan.packed:
            self.pack_b = _pack(w, form, True, f"{name}_pack_b")


def _unit(w: Writer, form: Form, functions: _Functions, item: I64) -> None:
    """One unit of one batch entry: a call of the driver."""
    plan, e = form.plan, w.e
    w.ev.memo.append({})
    batch: I64 = 0
    unit = item
    if plan.batch > 1 and plan.units > 1:
        batch = e.value(f"udiv i64 {item}, {plan.units}", item)
        unit = e.value(f"urem i64 {item}, {plan.units}", item)
    elif plan.batch > 1:
        batch, unit = item, 0
    if form.batch[1]:
        w.ev.position[form.batch[1][0][0]] = batch
    descriptor, runtime, scratch = functions.descriptor, _runtime(w), w.ev.scratch[0]
    b = _base(w, form, form.b_view)
    if plan.packed:
        b = w.ev.buffers[-1]
    head = f"ptr {descriptor}, ptr {runtime}, ptr %f"
    if plan.vector_form:
        x = _base(w, form, form.a_view)
        if plan.line_at is not None:
            x = e.pointer(scratch, plan.line_at)
            e.do(f"call void {functions.line}(ptr %f, ptr {x}, i64 {batch})")
        e.do(
            f"call void {_function(w, GEMV)}({head}, ptr {x}, ptr {b}, i64 {unit}, i64 {batch}, "
            f"ptr {scratch}, ptr {functions.epilogue})"
        )
    else:
        c = "null"
        if form.straight is not None:
            to = w.ev.buffers[form.stores[0].buffer]
            c = e.pointer(to, w.ev.i64(form.straight), form.element.llvm)
        e.do(
            f"call void {_function(w, GEMM)}({head}, ptr {_base(w, form, form.a_view)}, ptr {b}, "
            f"ptr {c}, i64 {unit}, i64 {batch}, ptr {scratch}, ptr {functions.epilogue}, "
            f"ptr {functions.pack_a}, ptr {functions.pack_b})"
        )
    w.ev.memo.pop()


def write_pack(w: Writer, call: Call) -> None:
    """Body of the kernel that packs B for all tasks of the one after it."""
    form = _form(call)
    plan, e = form.plan, w.e
    panels = plan.words[D.PANELS_N]
    first = e.mul("%task", plan.pack_panels) if plan.pack_tasks > 1 else 0
    stop = e.minimum(e.add(first, plan.pack_panels), panels)
    pack_b = _pack(w, form, True, f"{w.kernel.name}_pack_b") if form.b_view is None else "null"
    to = w.ev.buffers[-1]
    e.do(
        f"call void {_function(w, PACK_B)}(ptr {_descriptor_now(w, form)}, ptr {_runtime(w)}, ptr %f, "
        f"ptr {_base(w, form, form.b_view)}, ptr {to}, i64 {first}, i64 {stop}, "
        f"ptr {w.ev.scratch[0]}, ptr {pack_b}, "
        f"i64 {int(plan.pack_mode)}, i64 0)"
    )


CALLS_CONTRACT: dict[str, Callable[[Writer, Call], None]] = {
    "contract": write_contract,
    "contract_pack": write_pack,
}


def _form(call: Call) -> Form:
    form = call.operands[0]
    assert isinstance(form, Form)
    return form


def _descriptor(w: Writer, form: Form) -> str:
    name = f"@{w.kernel.name}_descriptor"
    words = ", ".join([f"i64 {x}" for x in form.plan.words])
    w.e.helpers[name] = (
        f"{name} = internal constant [{len(form.plan.words)} x i64] [{words}], align 8"
    )
    return name


def _descriptor_now(w: Writer, form: Form) -> str:
    """The descriptor of a call: where some of the sizes are known only now, one of its own.

    Rows and columns are left out by whole panels, one of each is always done; steps of k are left out one by one.
    """
    plan, e, ends = form.plan, w.e, form.ends
    if ends.m is None and ends.n is None and ends.k is None:
        return _descriptor(w, form)
    words: list[I64] = list(plan.words)
    if ends.m is not None and not plan.vector_form:
        panels = _at_least_one(w, _panels(w, ends.m, plan.rows))
        words[D.PANELS_M] = panels
        whole = e.value(f"icmp slt i64 {panels}, {plan.words[D.PANELS_M]}", panels)
        words[D.TILE_LAST] = e.value(
            f"select i1 {whole}, i64 {plan.words[D.TILE]}, i64 {plan.words[D.TILE_LAST]}", whole
        )
    if ends.n is not None and not plan.packed:
        words[D.PANELS_N] = _at_least_one(w, _panels(w, ends.n, plan.words[D.WIDTH]))
    if ends.k is not None:
        words[D.K] = w.ev.i64(ends.k)
        if not plan.vector_form:
            words[D.BLOCKS] = _at_least_one(w, _panels(w, words[D.K], plan.words[D.KC]))
    own = e.value(f"alloca [{len(words)} x i64], align 8", pure=False)
    for i, x in enumerate(words):
        e.do(f"store i64 {x}, ptr {e.pointer(own, i, 'i64')}, align 8")
    return own


def _panels(w: Writer, end: Expr | I64, per: int) -> I64:
    """How many panels (or blocks) of `per` there are up to `end`."""
    a = w.e.add(w.ev.i64(end) if isinstance(end, tuple) else end, per - 1)
    return a // per if isinstance(a, int) else w.e.value(f"udiv i64 {a}, {per}", a)


def _at_least_one(w: Writer, n: I64) -> I64:
    return w.e.maximum(n, 1)


def _runtime(w: Writer) -> str:
    at = w.e.pointer("%f", FRAME_RUNTIME, "i64")
    return w.e.value(f"load ptr, ptr {at}, align 8", at)


def _function(w: Writer, slot: int) -> str:
    """The pointer in a slot of the runtime table."""
    at = w.e.pointer(_runtime(w), slot, "ptr")
    return w.e.value(f"load ptr, ptr {at}, align 8", at)


def _base(w: Writer, form: Form, view: tuple[UOp, Expr] | None) -> str:
    """The address of a strided factor at m = n = k = 0."""
    if view is None:
        return "null"
    node, address = view
    return w.e.pointer(w.ev.buffers[w.kernel.loads[node]], w.ev.i64(address), form.element.llvm)


# ---- functions beside the kernel
def _part(w: Writer, name: str, parameters: str, form: Form) -> Writer:
    """A writer of another function of the same kernel, which gets the same frame %f."""
    kernel = replace(w.kernel, scratch=())
    part = Writer(kernel, name, w.width, w.limits, w.e.declarations, w.e.helpers)
    part.e.head = f"define internal void @{name}({parameters}) #0 {{\nentry:"
    if form.batch[1]:
        part.ev.position[form.batch[1][0][0]] = "%batch"
    return part


def _finish(w: Writer, part: Writer, name: str) -> str:
    w.e.helpers[name] = part.e.finish()
    return f"@{name}"


def _in_lanes(part: Writer, e: Expr, quotient: Expr, copy: int) -> None:
    """Bind the range of `e` to quotient + width * copy + lane."""
    part.ev.open = VectorBinding(e[1][0][0], 0, quotient, copy)


def _first_lanes(part: Writer, count: I64, before: int) -> str:
    """Mask of the lanes i with before + i < count."""
    v, lanes = part.ev.wide, part.width
    steps = "<" + ", ".join([f"i64 {before + i}" for i in range(lanes)]) + ">"
    limit = v.splat(str(count), "i64")
    return part.e.value(f"icmp slt {v.t('i64')} {steps}, {limit}", limit)


def _epilogue(w: Writer, form: Form, name: str) -> str:
    """Takes a finished tile: everything the cluster stores."""
    part = _part(w, name, _EPILOGUE, form)
    e, ev, plan = part.e, part.ev, form.plan
    wide, size = form.element, form.sizes[2]
    panel = _held_range(part, plan.words[D.PANELS_N], "%j")
    vec = ev.wide.t(wide.llvm)
    node = form.node.dtype
    # a tail is the end of a loop for the writer, with a number of lanes it knows; ours is known at
    # run time only, so stores of small elements, which count on it, get a condition of their own
    inside = ((form.n, 0, size),)
    small = [replace(s, conds=inside) if _is_small(w, s) else s for s in form.stores]

    def row(r: I64) -> None:
        ev.memo.append({})
        if form.m[1]:
            ev.position[form.m[1][0][0]] = e.add("%first", r)
        for u in range(plan.vectors):
            _in_lanes(part, form.n, scale(panel, plan.width), u)
            part.copies = [u]
            ev.tail = None
            if 0 < size % plan.width < (u + 1) * part.width:
                left = e.add(size, e.mul("%j", -plan.width))
                ev.tail = _first_lanes(part, left, u * part.width)
            at = e.add(e.mul(r, plan.width), u * part.width)
            x = e.value(
                f"load {vec}, ptr {e.pointer('%tile', at, wide.llvm)}, align {wide.size}",
                pure=False,
            )
            ev.bound[form.node, u] = (
                ev.wide.rounded(_narrowed(part, x, wide, node), node),
                part.width,
            )
            part.run(form.stores if ev.tail is None else small)
        ev.open = None
        ev.tail = None
        ev.memo.pop()

    _each(part, 0, "%rows", row)
    return _finish(w, part, name)


def _is_small(w: Writer, s: Store) -> bool:
    return w.kernel.buffers[s.buffer].dtype.itemsize < 4


def _held_range(part: Writer, size: int, register: I64) -> Expr:
    """A range that is held by `register`."""
    e = part.kernel.ranges.range(max(size, 2))
    part.ev.position[e[1][0][0]] = register
    return e


def _each(part: Writer, lo: I64, hi: I64, body: Callable[[I64], None]) -> None:
    """A loop that runs at least once."""

    def run(i: I64, _: list[str]) -> Sequence[str]:
        body(i)
        return ()

    part.e.loop(lo, hi, 1, (), run)


def _narrowed(part: Writer, x: str, wide: Element, dtype: DType) -> str:
    """An accumulator as a value of `dtype`, still to be rounded: integers wrap."""
    if dtype.is_int and dtype.bits < 8 * wide.size:
        return part.ev.wide.convert("trunc", wide.llvm, x, element(dtype))
    return x


def _widened(part: Writer, x: str, dtype: DType, wide: Element) -> str:
    """A factor's value as an element of the panel."""
    if dtype.is_int and dtype.bits < 8 * wide.size:
        return part.ev.wide.convert(
            "sext" if dtype.is_signed else "zext", element(dtype), x, wide.llvm
        )
    return x


def _factor(part: Writer, form: Form, columns: bool, k: Expr | None = None) -> str:
    """The factor at the lanes now bound (and at this k), as a vector of the panel's elements."""
    u, conds = (form.b, form.b_conds) if columns else (form.a, form.a_conds)
    index = form.index
    if k is not None:
        at, ranges = {form.k[1][0][0]: k}, part.kernel.ranges
        index = tuple([ranges.substitute(e, at) for e in index])
        conds = tuple([(ranges.substitute(e, at), lo, hi) for e, lo, hi in conds])
    x = part.ev.value(u, index, conds)
    return _widened(part, part.ev.lanes_of(x, u.dtype), u.dtype, form.element)


def _pack(w: Writer, form: Form, columns: bool, name: str) -> str:
    """Evaluates a factor into a panel: lanes along the panel or along k, as the form says."""
    part = _part(w, name, _PACK, form)
    if columns and form.b_across:
        _pack_across(part, form)
    elif not columns and form.a_across:
        _pack_rows(part, form)
    else:
        _pack_along(part, form, columns)
    return _finish(w, part, name)


def _panel_of(form: Form, columns: bool) -> tuple[Expr, int, int, int, int]:
    """(range, its size, how much of it a panel has, number of panels, width of the panel)."""
    words = form.plan.words
    if columns:
        return form.n, form.sizes[2], words[D.WIDTH], words[D.PANELS_N], words[D.WIDTH]
    return form.m, form.sizes[1], words[D.ROWS], words[D.PANELS_M], words[D.HEIGHT]


def _pack_along(part: Writer, form: Form, columns: bool) -> None:
    e, ev = part.e, part.ev
    outer, size, per, panels, width = _panel_of(form, columns)
    panel = _held_range(part, panels, "%number")
    kind = form.element.llvm
    left = e.minimum(per, e.add(size, e.mul("%number", -per)))

    def step(k: Expr, number: I64) -> None:
        ev.memo.append({})
        for u in range(width // part.width):
            if outer[1]:
                _in_lanes(part, outer, scale(panel, per), u)
                ev.tail = (
                    None
                    if size % per == 0 and per == width
                    else _first_lanes(part, left, u * part.width)
                )
            x = _factor(part, form, columns, k)
            at = e.add(e.mul(number, width), u * part.width)
            e.do(
                f"store {ev.wide.t(kind)} {x}, ptr {e.pointer('%panel', at, kind)}, "
                f"align {form.element.size}"
            )
        ev.open = ev.tail = None
        ev.memo.pop()

    if form.run:
        _runs(part, form, 1, step)
    else:
        k0: I64 = 0 if form.plan.one_block else "%k0"
        _each(part, 0, "%k", lambda k: step(_held_range(part, form.sizes[3], e.add(k0, k)), k))


def _runs(part: Writer, form: Form, lanes: int, body: Callable[[Expr, I64], None]) -> None:
    """`body(k / lanes, its number in this block of k)` in loops over the ranges that make up k, so that nothing is
    divided to tell them apart and what depends on some of them alone is computed once for the others.

    Steps of k come by `lanes`, all within the innermost range.
    """
    e = part.e
    sizes = [*form.run[:-1], form.run[-1] // lanes]
    whole, per = math.prod(form.run), math.prod(sizes)

    def index(size: int, i: I64) -> Expr:
        return (i, ()) if isinstance(i, int) else _held_range(part, size, i)

    def nest(depth: int, k: Expr, number: I64) -> None:
        if depth == len(sizes):
            body(k, number)
            return
        size, step = sizes[depth], math.prod(sizes[depth + 1 :])

        def at(i: I64) -> None:
            nest(depth + 1, add(k, scale(index(size, i), step)), e.add(number, e.mul(i, step)))

        if depth == len(sizes) - 1 and size <= UNROLLED_RUN:
            for i in range(size):
                at(i)
        else:
            _each(part, 0, size, at)

    first: I64 = 0
    count: I64 = form.sizes[3] // whole
    if not form.plan.one_block:
        first, count = [e.value(f"udiv i64 {x}, {whole}") for x in ("%k0", "%k")]
    _each(
        part, 0, count,
        lambda r: nest(0, scale(index(form.sizes[3] // whole, e.add(first, r)), per), e.mul(r, per)),
    )  # fmt: skip


def _vectors(
    part: Writer, form: Form, body: Callable[[Expr, I64, bool], None], unroll: bool = False
) -> None:
    """`body(k / lanes, number of the vector in this block of k, whether lanes beyond the last k are masked)` for all
    vectors of k in the block.
    """
    e, lanes, depth = part.e, part.width, form.sizes[3]
    if form.run and form.run[-1] % lanes == 0:
        _runs(part, form, lanes, lambda k, q: body(k, q, False))
        return
    first: I64 = 0 if form.plan.one_block else e.value(f"udiv i64 %k0, {lanes}")

    def vector(q: I64, tail: bool = False) -> None:
        body(_held_range(part, -(-depth // lanes), e.add(first, q)), q, tail)

    if form.plan.one_block:
        whole = depth // lanes
        if unroll and whole <= UNROLLED:
            for q in range(whole):
                vector(q)
        elif whole:
            _each(part, 0, whole, vector)
        if depth % lanes:
            vector(whole, True)
    else:
        rounded = e.add("%k", lanes - 1)
        _each(part, 0, e.value(f"udiv i64 {rounded}, {lanes}", rounded), lambda q: vector(q, depth % lanes != 0))


def _vector_of_k(part: Writer, form: Form, columns: bool, at: Expr, tail: bool) -> str:
    """The factor at the lanes of k from lanes * `at` on; the range of the panel is bound."""
    e, ev, lanes = part.e, part.ev, part.width
    _in_lanes(part, form.k, scale(at, lanes), 0)
    if tail:
        ev.tail = _first_lanes(part, e.add(form.sizes[3], e.mul(ev.i64(at), -lanes)), 0)
    x = _factor(part, form, columns)
    ev.open = ev.tail = None
    return x


def _pack_rows(part: Writer, form: Form) -> None:
    """A panel as `pack_rows` leaves it: row after row, so that what depends on the row is computed
    once."""
    e, ev, lanes = part.e, part.ev, part.width
    words = form.plan.words
    kind, size, rows = form.element.llvm, form.element.size, words[D.ROWS]
    first = e.mul("%number", rows)
    valid = e.minimum(rows, e.add(form.sizes[1], e.mul(first, -1)))

    def row(r: I64) -> None:
        ev.memo.append({})
        ev.position[form.m[1][0][0]] = e.add(first, r)

        def vector(k: Expr, q: I64, tail: bool) -> None:
            ev.memo.append({})
            x = _vector_of_k(part, form, False, k, tail)
            at = e.add(e.mul(q, words[D.HEIGHT] * lanes), e.mul(r, lanes))
            e.do(f"store {ev.wide.t(kind)} {x}, ptr {e.pointer('%panel', at, kind)}, align {size}")
            ev.memo.pop()

        _vectors(part, form, vector, form.a_uneven)
        ev.memo.pop()

    _each(part, 0, valid, row)


def _pack_across(part: Writer, form: Form) -> None:
    """A panel of B with lanes along k: square blocks of vectors, turned."""
    e, ev, lanes = part.e, part.ev, part.width
    width, columns = form.plan.words[D.WIDTH], form.sizes[2]
    kind, size = form.element.llvm, form.element.size
    turn = _function(part, pack_slot("turn", size))
    first = e.mul("%number", width)

    def block(k: Expr, q: I64, tail: bool) -> None:
        def column(j: I64) -> None:
            ev.memo.append({})
            at = e.add(first, j)
            ev.position[form.n[1][0][0]] = e.minimum(at, columns - 1) if columns % width else at
            x = _vector_of_k(part, form, True, k, tail)
            to = e.pointer("%block", e.mul(j, lanes), kind)
            e.do(f"store {ev.wide.t(kind)} {x}, ptr {to}, align {size}")
            ev.memo.pop()

        ev.memo.append({})
        _each(part, 0, width, column)
        panel = e.mul(q, lanes * width)
        for sub in range(width // lanes):
            source = e.pointer("%block", sub * lanes * lanes, kind)
            to = e.pointer("%panel", e.add(panel, sub * lanes), kind)
            e.do(f"call void {turn}(ptr {source}, ptr {to}, i64 {width})")
        ev.memo.pop()

    _vectors(part, form, block)


def _line(w: Writer, form: Form, name: str) -> str:
    """void(ptr frame, ptr line, i64 batch): the vector of a matrix-vector product, neighbours in k
    together."""
    part = _part(w, name, "ptr noalias %f, ptr noalias %line, i64 %batch", form)
    e, ev = part.e, part.ev
    kind = form.element.llvm

    def vector(k: Expr, q: I64, tail: bool) -> None:
        ev.memo.append({})
        x = _vector_of_k(part, form, False, k, tail)
        to = e.pointer("%line", e.mul(q, part.width), kind)
        e.do(f"store {ev.wide.t(kind)} {x}, ptr {to}, align {form.element.size}")
        ev.memo.pop()

    _vectors(part, form, vector)
    return _finish(w, part, name)
