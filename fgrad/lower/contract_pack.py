"""contract_pack: functions that evaluate a factor into panels, for factors that are no strided views.

Lanes lie along the panel or along k, whichever reads memory better.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fgrad.lower.alu import element
from fgrad.lower.contract_build import Form
from fgrad.lower.contract_part import each, finish, first_lanes, function, held_range, in_lanes, part_of
from fgrad.lower.emit import I64
from fgrad.lower.generate import Writer
from fgrad.lower.index import Expr, add, scale
from fgrad.lower.micro.driver import D
from fgrad.lower.micro.machine import Element
from fgrad.lower.micro.slots import pack_slot
from fgrad.uop.dtype import DType

UNROLLED = 12  # vectors of k written out where their indices are uneven
UNROLLED_RUN = 4  # steps of the innermost range of k written out
_PACK = "ptr noalias %f, ptr noalias %panel, i64 %number, i64 %k0, i64 %k, i64 %batch, ptr noalias %block"


def _widened(part: Writer, x: str, dtype: DType, wide: Element) -> str:
    """A factor's value as an element of the panel."""
    if dtype.is_int and dtype.bits < 8 * wide.size:
        return part.ev.wide.convert("sext" if dtype.is_signed else "zext", element(dtype), x, wide.llvm)
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


def pack(w: Writer, form: Form, columns: bool, name: str) -> str:
    """Evaluates a factor into a panel: lanes along the panel or along k, as the form says."""
    part = part_of(w, name, _PACK, form)
    if columns and form.b_across:
        _pack_across(part, form)
    elif not columns and form.a_across:
        _pack_rows(part, form)
    else:
        _pack_along(part, form, columns)
    return finish(w, part, name)


def _panel_of(form: Form, columns: bool) -> tuple[Expr, int, int, int, int]:
    """(range, its size, how much of it a panel has, number of panels, width of the panel)."""
    words = form.plan.words
    if columns:
        return form.n, form.sizes[2], words[D.WIDTH], words[D.PANELS_N], words[D.WIDTH]
    return form.m, form.sizes[1], words[D.ROWS], words[D.PANELS_M], words[D.HEIGHT]


def _pack_along(part: Writer, form: Form, columns: bool) -> None:
    e, ev = part.e, part.ev
    outer, size, per, panels, width = _panel_of(form, columns)
    panel = held_range(part, panels, "%number")
    kind = form.element.llvm
    left = e.minimum(per, e.add(size, e.mul("%number", -per)))

    def step(k: Expr, number: I64) -> None:
        ev.memo.append({})
        for u in range(width // part.width):
            if outer[1]:
                in_lanes(part, outer, scale(panel, per), u)
                ev.tail = None if size % per == 0 and per == width else first_lanes(part, left, u * part.width)
            x = _factor(part, form, columns, k)
            at = e.add(e.mul(number, width), u * part.width)
            e.do(f"store {ev.wide.t(kind)} {x}, ptr {e.pointer('%panel', at, kind)}, align {form.element.size}")
        ev.open = ev.tail = None
        ev.memo.pop()

    if form.run:
        _runs(part, form, 1, step)
    else:
        k0: I64 = 0 if form.plan.one_block else "%k0"
        each(part, 0, "%k", lambda k: step(held_range(part, form.sizes[3], e.add(k0, k)), k))


def _runs(part: Writer, form: Form, lanes: int, body: Callable[[Expr, I64], None]) -> None:
    """`body(k / lanes, its number in this block of k)` in loops over the ranges that make up k, so that nothing is
    divided to tell them apart and what depends on some of them alone is computed once for the others.

    Steps of k come by `lanes`, all within the innermost range.
    """
    e = part.e
    sizes = [*form.run[:-1], form.run[-1] // lanes]
    whole, per = math.prod(form.run), math.prod(sizes)

    def index(size: int, i: I64) -> Expr:
        return (i, ()) if isinstance(i, int) else held_range(part, size, i)

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
            each(part, 0, size, at)

    first: I64 = 0
    count: I64 = form.sizes[3] // whole
    if not form.plan.one_block:
        first, count = [e.value(f"udiv i64 {x}, {whole}") for x in ("%k0", "%k")]
    each(
        part, 0, count,
        lambda r: nest(0, scale(index(form.sizes[3] // whole, e.add(first, r)), per), e.mul(r, per)),
    )  # fmt: skip


def _vectors(part: Writer, form: Form, body: Callable[[Expr, I64, bool], None], unroll: bool = False) -> None:
    """`body(k / lanes, number of the vector in this block of k, whether lanes beyond the last k are masked)` for all
    vectors of k in the block.
    """
    e, lanes, depth = part.e, part.width, form.sizes[3]
    if form.run and form.run[-1] % lanes == 0:
        _runs(part, form, lanes, lambda k, q: body(k, q, False))
        return
    first: I64 = 0 if form.plan.one_block else e.value(f"udiv i64 %k0, {lanes}")

    def vector(q: I64, tail: bool = False) -> None:
        body(held_range(part, -(-depth // lanes), e.add(first, q)), q, tail)

    if form.plan.one_block:
        whole = depth // lanes
        if unroll and whole <= UNROLLED:
            for q in range(whole):
                vector(q)
        elif whole:
            each(part, 0, whole, vector)
        if depth % lanes:
            vector(whole, True)
    else:
        rounded = e.add("%k", lanes - 1)
        each(part, 0, e.value(f"udiv i64 {rounded}, {lanes}", rounded), lambda q: vector(q, depth % lanes != 0))


def _vector_of_k(part: Writer, form: Form, columns: bool, at: Expr, tail: bool) -> str:
    """The factor at the lanes of k from lanes * `at` on; the range of the panel is bound."""
    e, ev, lanes = part.e, part.ev, part.width
    in_lanes(part, form.k, scale(at, lanes), 0)
    if tail:
        ev.tail = first_lanes(part, e.add(form.sizes[3], e.mul(ev.i64(at), -lanes)), 0)
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

    each(part, 0, valid, row)


def _pack_across(part: Writer, form: Form) -> None:
    """A panel of B with lanes along k: square blocks of vectors, turned."""
    e, ev, lanes = part.e, part.ev, part.width
    width, columns = form.plan.words[D.WIDTH], form.sizes[2]
    kind, size = form.element.llvm, form.element.size
    turn = function(part, pack_slot("turn", size))
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
        each(part, 0, width, column)
        panel = e.mul(q, lanes * width)
        for sub in range(width // lanes):
            source = e.pointer("%block", sub * lanes * lanes, kind)
            to = e.pointer("%panel", e.add(panel, sub * lanes), kind)
            e.do(f"call void {turn}(ptr {source}, ptr {to}, i64 {width})")
        ev.memo.pop()

    _vectors(part, form, block)


def line(w: Writer, form: Form, name: str) -> str:
    """void(ptr frame, ptr line, i64 batch): the vector of a matrix-vector product, neighbours in k
    together."""
    part = part_of(w, name, "ptr noalias %f, ptr noalias %line, i64 %batch", form)
    e, ev = part.e, part.ev
    kind = form.element.llvm

    def vector(k: Expr, q: I64, tail: bool) -> None:
        ev.memo.append({})
        x = _vector_of_k(part, form, False, k, tail)
        to = e.pointer("%line", e.mul(q, part.width), kind)
        e.do(f"store {ev.wide.t(kind)} {x}, ptr {to}, align {form.element.size}")
        ev.memo.pop()

    _vectors(part, form, vector)
    return finish(w, part, name)
