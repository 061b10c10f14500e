"""Programs as text: a listing to read, a source that rebuilds the very same nodes."""

import numpy as np
import pytest
from hypothesis import given

from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.node import Storage, UOp, open_param, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Call, Cond, Program, Scan, While, close, gets
from fgrad.uop.show import listing, listing_around, rebuild, source
from tests.laws.programs import EVERY, Case, programs

F = (dt.float32, ())


def loops() -> Program:
    """A scan, a while, a cond and a checkpoint in one program, with an effect."""
    n, c, x = (open_param(*F, name) for name in "ncx")
    body = close((c, x), (b.add(c, x), b.mul(c, x)))
    less = close((n, c), (b.lt(c, n),))
    double = close((n, c), (b.mul(c, 2.0),))
    xs, i, r = open_param(dt.float32, (3,)), open_param(dt.int32, ()), open_param(dt.float32, (4,))
    total, ys = gets(uop(Op.SCAN, (b.const(0.0, dt.float32), xs), Scan(body, 3, 0, 1, 1, True)))
    (big,) = gets(uop(Op.WHILE, (total, b.const(1.0, dt.float32)), While(less, double, 1)))
    sides = (close((c,), (b.neg(c),)), close((c,), (c,)))
    (side,) = gets(uop(Op.COND, (i, big), Cond(sides)))
    (kept,) = gets(uop(Op.CALL, (side,), Call(sides[0], "checkpoint", "layer")))
    ref = b.update(r, ys, mode=Mode.ADD, box=[(1, 3, 1)])
    return close((xs, i, r), (kept, ref), ((2, 1),))


def test_a_listing_has_one_line_for_each_node_and_inner_programs_indented() -> None:
    x, y = open_param(dt.float32, (3, 4)), open_param(dt.float32, (4,))
    program = close((x, y), (b.reduce_(b.add(x, y), [1]),))
    assert listing(program).split("\n") == [
        "program(%0: float32[3,4], %1: float32[4])",
        "  %2 = EXPAND %1 ((0, 3),)                   float32[3,4]",
        "  %3 = ADD %0 %2                             float32[3,4]",
        "  %4 = REDUCE %3 (ADD, (1,))                 float32[3]",
        "  return %4",
    ]
    text = str(loops())
    assert "SCAN" in text and "length=3 consts=0 carry=1 xs=1 reverse" in text
    assert "\n    body(%0: float32[], %1: float32[])\n      %2 = ADD %0 %1" in text
    assert "branch 1(%0: float32[])\n      return %0" in text
    assert text.endswith("return %12, %14 [%2 := %14]")


def test_equal_programs_print_equally_whatever_was_made_before() -> None:
    first = listing(loops())
    open_param(*F)
    assert listing(loops()) == first


def test_the_source_of_a_program_rebuilds_the_same_nodes() -> None:
    program = loops()
    again = rebuild(repr(program))
    assert again == program
    assert all(a is c for a, c in zip(again.outs, program.outs, strict=True))


@given(programs(dtypes=EVERY, control=True))
def test_every_program_is_rebuilt_from_its_source(case: Case) -> None:
    program, _ = case
    again = rebuild(source(program))
    assert again == program


def test_constants_survive_to_the_last_bit() -> None:
    values = [0.1, -0.0, np.nan, np.inf, 5e-324]
    program = Program((), tuple([b.const(v, dt.float64) for v in values]))
    assert rebuild(source(program)).outs == program.outs


def test_what_no_text_can_hold_has_no_source_but_a_listing() -> None:
    buffer = uop(Op.BUFFER, (), Storage(dt.float32, (2,)))
    program = Program((), (b.neg(buffer),))
    with pytest.raises(NotImplementedError, match="make it a parameter"):
        source(program)
    assert "NEG %0" in repr(program)
    with pytest.raises(NotImplementedError, match="close the program"):
        source(Program((), (open_param(*F),)))


def test_the_listing_around_a_node_marks_it() -> None:
    x: UOp = open_param(dt.float32, ())
    y = x
    for _ in range(30):
        y = b.sin(y)
    middle = y.src[0].src[0]
    lines = listing_around([y], middle, 3).splitlines()
    assert len(lines) == 6
    assert [line.startswith("->") for line in lines] == [False, False, False, True, False, False]
