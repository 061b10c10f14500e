"""transpose rows of SCAN and COND, whose results are all linear after `split`; WHILE is refused.

A SCAN runs backward: it carries the cotangents of the carries and the sums of those of linear
consts, takes residuals and the cotangents of ys, and gives the cotangents of linear xs. Masks
(`strong.py`) travel beside the cotangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from fgrad.trace.backward import ABSENT, MASKED, PLAIN, kind_of, needs_masks, transpose_program
from fgrad.trace.interpret import transpose
from fgrad.trace.maybe import pick
from fgrad.trace.singular import Singular
from fgrad.trace.strong import Cotangent
from fgrad.uop import dtype as dt
from fgrad.uop.build import add, const, zeros_like
from fgrad.uop.node import UOp, open_param, toposort, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Cond, Scan, close, gets

Cotangents = list[Cotangent | None]


def _no_mask(x: UOp) -> UOp:
    """Zero everywhere."""
    return const(False, dt.bool_, x.shape)


def _singular(operands: Sequence[UOp], linear: Sequence[bool]) -> tuple[bool, ...]:
    asks = Singular()
    return tuple(
        [not m and a.dtype.is_inexact and asks(a) for a, m in zip(operands, linear, strict=True)]
    )


def _lower(kinds: Sequence[int], masks: bool) -> list[int]:
    """Forget the masks when nothing asks for them."""
    return [PLAIN if k == MASKED and not masks else k for k in kinds]


@transpose(Op.SCAN)
def _(u: UOp, cts: Cotangents, linear: list[bool]) -> Cotangents:
    s: Scan = u.arg
    nc, ns, body = s.consts, s.carry, s.body
    # an operand that is not linear although its carry is (zeros) starts a linear carry all the same
    lin = (*linear[:nc], *[True] * ns, *linear[nc + ns :])
    lc, lx = lin[:nc], lin[nc + ns :]
    singular = _singular(u.src, lin)
    masks = needs_masks(body, lin, singular)
    ys = _lower([kind_of(c) for c in cts[ns:]], masks)
    carry = _lower([kind_of(c) for c in cts[:ns]], masks)
    n_consts = sum(lc)
    while True:  # what is known of the carried cotangents can only become less
        t = transpose_program(body, lin, (*carry, *ys), singular)
        new = [max(a, b) for a, b in zip(carry, t.kinds[n_consts : n_consts + ns], strict=True)]
        if new == carry:
            break
        carry = new
    gc, gi, gx = t.kinds[:n_consts], t.kinds[n_consts : n_consts + ns], t.kinds[n_consts + ns :]

    p = iter(t.program.params)
    plain = [next(p) for _ in pick(body.params, lin, False)]
    n_plain = nc - n_consts
    c_carry = [next(p) if k else None for k in carry]
    c_ys = [next(p) if k else None for k in ys]
    m_carry = [next(p) if k == MASKED else None for k in carry]
    m_ys = [next(p) if k == MASKED else None for k in ys]
    out = iter(t.program.outs)
    v_consts = [next(out) if k else None for k in gc]
    v_carry = [next(out) if k else None for k in gi]
    v_xs = [next(out) if k else None for k in gx]
    mask_outs = [next(out) if k == MASKED else None for k in (*gc, *gi, *gx)]
    mv_carry, mv_xs = mask_outs[n_consts : n_consts + ns], mask_outs[n_consts + ns :]

    consts_params = pick(body.params[:nc], lc)
    sums = [open_param(q.dtype, q.shape, "sum") if v is not None else None
            for q, v in zip(consts_params, v_consts, strict=True)]  # fmt: skip
    carried: list[tuple[UOp, UOp, UOp]] = []  # param, new value, initial value
    for a, v in zip(sums, v_consts, strict=True):
        if a is not None and v is not None:
            carried.append((a, add(a, v), zeros_like(a)))
    first_ct = len(carried)
    for q, v, given in zip(c_carry, v_carry, cts[:ns], strict=True):
        if q is not None:
            carried.append(
                (q, zeros_like(q) if v is None else v, zeros_like(q) if given is None else given[0])
            )
    for q, v, mv, given in zip(m_carry, v_carry, mv_carry, cts[:ns], strict=True):
        if q is not None:
            new_mask = _no_mask(q) if v is None else _sure(mv)
            carried.append((q, new_mask, _no_mask(q) if given is None else _sure(given[1])))
    used = set(
        toposort([*[new for _, new, _ in carried], *[v for v in (*v_xs, *mv_xs) if v is not None]])
    )
    consts0 = pick(
        zip(plain[:n_plain], pick(u.src[:nc], lc, False), strict=True),
        [q in used for q in plain[:n_plain]],
    )
    xs0 = pick(
        zip(plain[n_plain:], pick(u.src[nc + ns :], lx, False), strict=True),
        [q in used for q in plain[n_plain:]],
    )
    streams = [*xs0]
    for q, given in zip(c_ys, cts[ns:], strict=True):
        if q is not None and given is not None:
            streams.append((q, given[0]))
    for q, given in zip(m_ys, cts[ns:], strict=True):
        if q is not None and given is not None:
            streams.append((q, _sure(given[1])))
    results = [v for v in (*v_xs, *mv_xs) if v is not None]
    params = (*[q for q, _ in consts0], *[q for q, _, _ in carried], *[q for q, _ in streams])
    back = close(params, [*[new for _, new, _ in carried], *results])
    sources = (
        *[a for _, a in consts0],
        *[init for _, _, init in carried],
        *[a for _, a in streams],
    )
    arg = Scan(back, s.length, len(consts0), len(carried), len(streams), not s.reverse)
    got = gets(uop(Op.SCAN, sources, arg)) if back.outs else []

    it = iter(got)
    r_consts: Cotangents = [(next(it), None) if a is not None else None for a in sums]
    assert first_ct == sum(r is not None for r in r_consts)
    r_values = [next(it) if q is not None else None for q in c_carry]
    r_masks = [next(it) if q is not None else None for q in m_carry]
    r_carry: Cotangents = [
        None if v is None else (v, m) for v, m in zip(r_values, r_masks, strict=True)
    ]
    x_values = [next(it) if v is not None else None for v in v_xs]
    x_masks = [next(it) if v is not None else None for v in mv_xs]
    r_xs: Cotangents = [
        None if v is None else (v, m) for v, m in zip(x_values, x_masks, strict=True)
    ]
    return [*_deal(r_consts, lc), *r_carry, *_deal(r_xs, lx)]


def _sure(x: UOp | None) -> UOp:
    assert x is not None
    return x


def _deal(xs: Cotangents, flags: Sequence[bool]) -> Cotangents:
    it = iter(xs)
    return [next(it) if m else None for m in flags]


@transpose(Op.COND)
def _(u: UOp, cts: Cotangents, linear: list[bool]) -> Cotangents:
    """The transposed branches; a cotangent that one of them lacks is zeros there."""
    cond: Cond = u.arg
    lin = tuple(linear[1:])
    operands = u.src[1:]
    singular = _singular(operands, lin)
    masks = any(needs_masks(b, lin, singular) for b in cond.branches)
    kinds = tuple(_lower([kind_of(c) for c in cts], masks))
    sides = [transpose_program(b, lin, kinds, singular) for b in cond.branches]
    joined = [max(ks) for ks in zip(*[t.kinds for t in sides], strict=True)]
    if not any(joined):
        return [None] * len(linear)
    like = pick(operands, lin)
    programs = []
    for t in sides:
        values = iter(t.program.outs)
        given = [next(values) if k else None for k in t.kinds]
        masks_of = [next(values) if k == MASKED else None for k in t.kinds]
        outs = [
            zeros_like(a) if v is None else v
            for a, v, k in zip(like, given, joined, strict=True)
            if k
        ]
        outs += [
            _no_mask(a) if v is None else _sure(m)
            for a, v, m, k in zip(like, given, masks_of, joined, strict=True)
            if k == MASKED
        ]
        programs.append(close(t.program.params, outs))
    sources = [
        u.src[0], *pick(operands, lin, False), *[c[0] for c in cts if c is not None],
        *[_sure(c[1]) for c, k in zip(cts, kinds, strict=True) if k == MASKED and c is not None],
    ]  # fmt: skip
    got = gets(uop(Op.COND, tuple(sources), Cond(tuple(programs))))
    at, masked_at = count(), count(sum(k != ABSENT for k in joined))
    result: Cotangents = []
    for k in joined:
        value = got[next(at)] if k else None
        mask = got[next(masked_at)] if k == MASKED else None
        result.append(None if value is None else (value, mask))
    return [None, *_deal(result, lin)]


transpose.refuse(
    Op.WHILE,
    because="reverse-mode differentiation of a while loop needs the values of all its steps, and "
    "their number is unknown; give while_loop max_steps=, use scan or fori_loop with a fixed "
    "length, or differentiate in forward mode (jvp, jacfwd)",
)
