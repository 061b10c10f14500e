"""Index expressions: simplified forms have the values and bounds of what they stand for."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from fgrad.lower.index import AtomKind, Expr, Ranges, add, constant, scale

Positions = dict[int, int]


def value(ranges: Ranges, e: Expr, at: Positions) -> int:
    """The number an expression is; checks what is promised of its atoms."""
    total = e[0]
    for t, c in e[1]:
        a = ranges.atoms[t]
        if a.kind is AtomKind.RANGE:
            x = at[t]
        else:
            inner = value(ranges, a.inner, at)
            assert inner >= 0, "atoms hold non-negative expressions"
            x = inner // a.by if a.kind is AtomKind.DIV else inner % a.by
        assert a.lo <= x <= a.hi
        total += c * x
    return total


@settings(max_examples=200)
@given(st.data())
def test_arithmetic_means_what_it_says(data: st.DataObject) -> None:
    ranges = Ranges()
    number = lambda lo, hi: data.draw(st.integers(lo, hi))  # noqa: E731
    made: list[tuple[Expr, Callable[[Positions], int]]] = []
    for _ in range(3):
        r = ranges.range(number(2, 9))
        made.append((r, lambda at, t=r[1][0][0]: at[t]))
    for _ in range(8):
        (e, f), (g, h) = (data.draw(st.sampled_from(made)) for _ in range(2))
        c, z = number(1, 12), number(-3, 3)
        match number(0, 3):
            case 0:
                sum_ = add(add(e, g, z), constant(c - 6))
                made.append((sum_, lambda at, f=f, h=h, z=z, c=c: f(at) + z * h(at) + c - 6))
            case 1:
                made.append((ranges.div(e, c), lambda at, f=f, c=c: f(at) // c))
            case 2:
                made.append((ranges.mod(e, c), lambda at, f=f, c=c: f(at) % c))
            case _:
                both = add(scale(ranges.mod(e, c), 2), scale(ranges.div(e, c), 2 * c))
                made.append((ranges.recombine(both), lambda at, f=f: 2 * f(at)))
    for _ in range(5):
        at = {t: number(0, a.hi) for t, a in enumerate(ranges.atoms) if a.kind is AtomKind.RANGE}
        for e, f in made:
            lo, hi = ranges.bounds(e)
            assert value(ranges, e, at) == f(at)
            assert lo <= f(at) <= hi


def test_the_index_of_heads_is_affine() -> None:
    ranges = Ranges()
    i, j, k = ranges.ranges((512, 4, 32))
    flat = ranges.linear((i, j, k), (512, 4, 32))
    assert ranges.delinear(flat, (512, 4, 32)) == [i, j, k]
    assert ranges.address(ranges.delinear(flat, (8, 64, 128)), (8, 64, 128)) == flat
