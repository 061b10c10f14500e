"""contract_emit: LLVM text of a contraction: its descriptor, the call of the driver and the epilogue;
packing functions are in `contract_pack`.

Only what differs between contractions is generated: a stub of some twenty lines, the epilogue, and
a packing function for each factor that is not a strided view. Everything else is in the
micro-kernels, reached through the runtime table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fgrad.lower.alu import element
from fgrad.lower.contract_build import Form
from fgrad.lower.contract_pack import line, pack
from fgrad.lower.contract_part import each, finish, first_lanes, function, held_range, in_lanes, part_of, runtime
from fgrad.lower.emit import I64
from fgrad.lower.generate import Writer
from fgrad.lower.index import Expr, scale
from fgrad.lower.kernel import Call, Store
from fgrad.lower.micro.driver import D
from fgrad.lower.micro.machine import Element
from fgrad.lower.micro.slots import GEMM, GEMV, PACK_B
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp

_EPILOGUE = "ptr noalias %f, ptr noalias %tile, i64 %first, i64 %rows, i64 %j, i64 %batch"


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
        each(w, first, last, lambda item: _unit(w, form, functions, item))
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
                self.line = line(w, form, f"{name}_line")
            return
        if form.a_view is None:
            self.pack_a = pack(w, form, False, f"{name}_pack_a")
        if form.b_view is None and not plan.packed:
            self.pack_b = pack(w, form, True, f"{name}_pack_b")


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
    descriptor, scratch = functions.descriptor, w.ev.scratch[0]
    b = _base(w, form, form.b_view)
    if plan.packed:
        b = w.ev.buffers[-1]
    head = f"ptr {descriptor}, ptr {runtime(w)}, ptr %f"
    if plan.vector_form:
        x = _base(w, form, form.a_view)
        if plan.line_at is not None:
            x = e.pointer(scratch, plan.line_at)
            e.do(f"call void {functions.line}(ptr %f, ptr {x}, i64 {batch})")
        e.do(
            f"call void {function(w, GEMV)}({head}, ptr {x}, ptr {b}, i64 {unit}, i64 {batch}, "
            f"ptr {scratch}, ptr {functions.epilogue})"
        )
    else:
        c = "null"
        if form.straight is not None:
            to = w.ev.buffers[form.stores[0].buffer]
            c = e.pointer(to, w.ev.i64(form.straight), form.element.llvm)
        e.do(
            f"call void {function(w, GEMM)}({head}, ptr {_base(w, form, form.a_view)}, ptr {b}, "
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
    pack_b = pack(w, form, True, f"{w.kernel.name}_pack_b") if form.b_view is None else "null"
    to = w.ev.buffers[-1]
    e.do(
        f"call void {function(w, PACK_B)}(ptr {_descriptor_now(w, form)}, ptr {runtime(w)}, ptr %f, "
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
    w.e.helpers[name] = f"{name} = internal constant [{len(form.plan.words)} x i64] [{words}], align 8"
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


def _base(w: Writer, form: Form, view: tuple[UOp, Expr] | None) -> str:
    """The address of a strided factor at m = n = k = 0."""
    if view is None:
        return "null"
    node, address = view
    return w.e.pointer(w.ev.buffers[w.kernel.loads[node]], w.ev.i64(address), form.element.llvm)


# ---- the epilogue


def _epilogue(w: Writer, form: Form, name: str) -> str:
    """Takes a finished tile: everything the cluster stores."""
    part = part_of(w, name, _EPILOGUE, form)
    e, ev, plan = part.e, part.ev, form.plan
    wide, size = form.element, form.sizes[2]
    panel = held_range(part, plan.words[D.PANELS_N], "%j")
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
            in_lanes(part, form.n, scale(panel, plan.width), u)
            part.copies = [u]
            ev.tail = None
            if 0 < size % plan.width < (u + 1) * part.width:
                left = e.add(size, e.mul("%j", -plan.width))
                ev.tail = first_lanes(part, left, u * part.width)
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

    each(part, 0, "%rows", row)
    return finish(w, part, name)


def _is_small(w: Writer, s: Store) -> bool:
    return w.kernel.buffers[s.buffer].dtype.itemsize < 4


def _narrowed(part: Writer, x: str, wide: Element, dtype: DType) -> str:
    """An accumulator as a value of `dtype`, still to be rounded: integers wrap."""
    if dtype.is_int and dtype.bits < 8 * wide.size:
        return part.ev.wide.convert("trunc", wide.llvm, x, element(dtype))
    return x
