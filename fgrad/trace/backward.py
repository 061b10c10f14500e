"""The transposing walk: cotangents backward, with strong-zero masks, and its memoised form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fgrad.trace.interpret import TUPLES, marked, memo, split, transpose
from fgrad.trace.maybe import Maybe, pick, present
from fgrad.trace.products import addends, holds_product, is_outer
from fgrad.trace.singular import Singular
from fgrad.trace.strong import Cotangent, either, is_near, mask_of_source
from fgrad.uop import dtype as dt
from fgrad.uop.build import const, is_const, where
from fgrad.uop.node import UOp, open_param, toposort, uop
from fgrad.uop.op import CALLS, Op
from fgrad.uop.program import Program, close


def pull(
    outs: Sequence[UOp], cts: Sequence[Maybe], wrt: Sequence[UOp], linear: set[UOp] | None = None
) -> list[Maybe]:
    """The cotangents of `wrt` for those of `outs`; None is an exact zero.

    linear   the nodes that depend on `wrt` linearly (from `split`), or None: find them
    """
    given = [None if c is None else (c, None) for c in cts]
    lin = marked(outs, wrt, _since(wrt)) if linear is None else linear
    return [None if c is None else c[0] for c in pull_masked(outs, given, wrt, lin)]


def _since(wrt: Sequence[UOp]) -> int:
    return min([w.born for w in wrt], default=0)


# what a product passes through on its own, so that it is reduced before it is added to others
_APART = frozenset((
    Op.EXPAND, Op.RESHAPE, Op.PERMUTE, Op.NEG, Op.PAD, Op.SHRINK, Op.FLIP, Op.WINDOW, Op.SKEW,
))  # fmt: skip


def pull_masked(
    outs: Sequence[UOp],
    cts: Sequence[Cotangent | None],
    wrt: Sequence[UOp],
    linear: set[UOp],
    singular: Sequence[UOp] = (),
) -> list[Cotangent | None]:
    """`pull` for cotangents with strong-zero masks.

    `singular` are parameters that can be infinite or NaN.
    """
    order = toposort(outs, _since(wrt))
    asks = Singular(singular)
    masks = any(_asks_for_masks(u, linear, asks) or _multiplies(u, linear) for u in order)
    apart: dict[UOp, list[Cotangent]] = {}  # contributions, kept apart until the node is visited
    members: dict[UOp, dict[int, Cotangent]] = {}  # of tuple-valued nodes

    def give(s: UOp, v: UOp, m: Maybe) -> None:
        got = apart.get(s)
        if got is None:
            apart[s] = [(v, m)]
        else:
            got.append((v, m))

    for o, c in zip(outs, cts, strict=True):
        if c is not None and o in linear:
            give(o, c[0], c[1] if masks else None)
    ends = set(wrt)
    for u in reversed(order):
        if u not in linear or u in ends:
            continue
        if u.op in TUPLES:
            if u in members:
                here = members.pop(u)
                parts = [here.get(i) for i in range(len(u.shape))]
                flags = [s in linear for s in u.src]
                for s, part, wanted in zip(
                    u.src, transpose[u.op](u, parts, flags), flags, strict=True
                ):
                    if wanted and part is not None:
                        give(s, part[0], part[1] if masks else None)
            continue
        contributions = apart.pop(u, None)
        if contributions is None:
            continue
        if u.op is Op.GET:
            members.setdefault(u.src[0], {})[u.arg] = _total(contributions)
            continue
        flags = [s in linear for s in u.src]
        if u.op in _APART and any(holds_product(v) for v, _ in contributions):
            todo = [(term, m) for v, m in contributions for term in addends(v)]
        else:
            todo = [_total(contributions)]
        for v, m in todo:
            _check_linear(u, flags)
            if m is not None and _wants_mask(u, m, linear, asks):
                j = 0 if flags[0] else 1
                product = transpose[u.op](u, v, flags)[j]
                give(u.src[j], where(m, product, const(0, product.dtype)), m)
                continue
            for j, part in enumerate(transpose[u.op](u, v, flags)):
                if part is not None and flags[j]:
                    give(
                        u.src[j], part, mask_of_source(transpose, u, j, m, flags) if masks else None
                    )
    return [_total(apart[w]) if w in apart else None for w in wrt]


def _check_linear(u: UOp, flags: list[bool]) -> None:
    for s, m in zip(u.src, flags, strict=True):
        if m and not s.dtype.is_inexact:
            raise NotImplementedError(
                f"{transpose.name} of {u.op.name}: it depends on the input through a value of "
                f"dtype {s.dtype}, so it is not linear; take the derivative (vjp) instead"
            )


def _multiplies_singular(u: UOp, linear: set[UOp], asks: Singular) -> bool:
    if u.op is Op.MUL:
        x, y = u.src
        return (x in linear or y in linear) and asks(y if x in linear else x)
    return u.op is Op.DIV and u.src[0] in linear and asks.divides(u.src[1])


def _multiplies(u: UOp, linear: set[UOp]) -> bool:
    """A product with something that may be NaN in spite of all, as it depends on inputs."""
    if u.op is Op.MUL:
        x, y = u.src
        return (x in linear and not is_const(y)) or (y in linear and not is_const(x))
    return u.op is Op.DIV and u.src[0] in linear and not is_const(u.src[1])


def _wants_mask(u: UOp, m: UOp, linear: set[UOp], asks: Singular) -> bool:
    """Whether the product `u` is taken only where the mask is true; contractions never are."""
    if is_outer(u):
        return False
    return _multiplies_singular(u, linear, asks) or (_multiplies(u, linear) and is_near(m))


def _asks_for_masks(u: UOp, linear: set[UOp], asks: Singular) -> bool:
    return u in linear and (u.op in CALLS or _multiplies_singular(u, linear, asks))


def _total(contributions: list[Cotangent]) -> Cotangent:
    total, mask = contributions[0]
    for v, m in contributions[1:]:
        total, mask = uop(Op.ADD, (total, v)), either(mask, m)
    return total, mask


# what is known of a cotangent: an exact zero; zero where its mask is false; nothing
ABSENT, MASKED, PLAIN = range(3)


def kind_of(c: Cotangent | None) -> int:
    return ABSENT if c is None else PLAIN if c[1] is None else MASKED


class Transposed(NamedTuple):
    """A transposed program, and what is known of the cotangents it gives.

    `program` maps (*non-linear params, *cotangents that are there, *their masks) to (*cotangents of
    linear params, *masks).
    """

    program: Program
    kinds: tuple[int, ...]  # of the linear params' cotangents


@memo
def transpose_program(
    program: Program, linear: tuple[bool, ...], kinds: tuple[int, ...], singular: tuple[bool, ...]
) -> Transposed:
    """Transpose a program in its `linear` params, for cotangents of these kinds.

    singular   which params can be infinite or NaN (see `strong.py`)
    """
    ps = program.params
    wrt = pick(ps, linear)
    outs, lin = split(program.outs, wrt)
    cts = [open_param(o.dtype, o.shape, "ct") for o, k in zip(outs, kinds, strict=True) if k]
    masks = [
        open_param(dt.bool_, o.shape, "mask")
        for o, k in zip(outs, kinds, strict=True)
        if k == MASKED
    ]
    c, m = iter(cts), iter(masks)
    given = [(next(c), next(m) if k == MASKED else None) if k else None for k in kinds]
    got = pull_masked(outs, given, wrt, lin, pick(ps, singular))
    if not needs_masks(program, linear, singular):  # then nobody who repeats it does
        got = [None if g is None else (g[0], None) for g in got]
    parts = present(got)
    results = [*[v for v, _ in parts], *present([mask for _, mask in parts])]
    body = close((*pick(ps, linear, False), *cts, *masks), results)
    return Transposed(body, tuple([kind_of(g) for g in got]))


@memo
def needs_masks(program: Program, linear: tuple[bool, ...], singular: tuple[bool, ...]) -> bool:
    """Whether some linear value of the program meets a factor that can be infinite or NaN."""
    asks = Singular(pick(program.params, singular))
    lin = marked(program.outs, pick(program.params, linear))
    return any(_asks_for_masks(u, lin, asks) for u in program.nodes)
