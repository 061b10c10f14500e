"""The rules of closed programs, and the step that checks them after every pass."""

from dataclasses import replace

import pytest
from hypothesis import given

from fgrad.config import config
from fgrad.errors import SpecError
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, open_param, slot_param, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Call, Cond, Program, Scan, Update, While, close, gets
from fgrad.uop.rewrite import is_shown, step
from fgrad.uop.simplify import simplify_program
from fgrad.uop.spec import RAW, TRACED, verify, verify_nodes
from tests.laws.programs import EVERY, Case, programs

X = slot_param(0, dt.float32, (3,))
S = slot_param(0, dt.float32, ())


@given(programs(dtypes=EVERY))
def test_generated_and_simplified_programs_are_legal(case: Case) -> None:
    verify(case[0])
    verify(simplify_program(case[0]))


def refused(program: Program, match: str) -> None:
    with pytest.raises(SpecError, match=match):
        verify(program)


def test_stores_and_loads_are_legal_only_in_raw_graphs() -> None:
    store = uop(Op.STORE, (X, b.neg(X)), Mode.SET)
    program = Program((X,), (uop(Op.AFTER, (X, store)),))
    refused(program, "TRACED: STORE: writes are versions")
    verify(program, RAW)
    refused(Program((X,), (uop(Op.LOAD, (X,)),)), "TRACED: LOAD")
    refused(Program((X,), (uop(Op.CALL, (X,), Call(program, "checkpoint")).src[0], *gets(
        uop(Op.CALL, (X,), Call(program, "checkpoint"))))), "STORE")  # fmt: skip
    verify(Program((X,), tuple(gets(uop(Op.CALL, (X,), Call(program, "kernel"))))))


def test_a_closed_program_has_no_parameters_but_its_own() -> None:
    p = open_param(dt.float32, (3,))
    refused(Program((X,), (b.add(X, p),)), "an open PARAM is left")
    refused(Program((X,), (b.neg(slot_param(1, dt.float32, (3,))),)), "slot is not a parameter")
    refused(Program((slot_param(1, dt.float32, (3,)),), ()), "parameter 0 is")


def test_the_message_shows_the_listing_around_the_node() -> None:
    with pytest.raises(SpecError, match=r"(?s)needs 1 sources, has 2.*-> *%2 = SIN %0 %1"):
        verify(Program((X,), (uop(Op.SIN, (X, b.neg(X))),)))


@pytest.mark.parametrize(
    ("u", "match"),
    [
        (uop(Op.REDUCE, (X,), (Op.ADD, (0, 0))), "not ascending"),
        (uop(Op.REDUCE, (X,), (Op.SIN, (0,))), "cannot combine"),
        (uop(Op.EXPAND, (X,), ((1, 2), (0, 2))), "not ascending"),
        (uop(Op.FLIP, (X,), (1,)), "not ascending"),
        (uop(Op.PREFIX, (X,), (Op.AND, 0, False)), "cannot run"),
        (uop(Op.PREFIX, (X,), (Op.ADD, 1, False)), "no axis 1"),
        (gets(uop(Op.SORT, (X,), 2))[0], "no axis 2"),
        (b.shrink(X, [(None, 1, 1)], [b.const(0, dt.int32)]), "int64 scalar"),
        (uop(Op.UPDATE, (X, X, b.iota(3)), Update(Mode.SET, None, True)), ""),
        (uop(Op.UPDATE, (X, X, X), Update(Mode.SET, None, True)), "indices are integers"),
        (uop(Op.SORT, (X,), 0), "one value"),
        (uop(Op.STORE, (X, X), Mode.SET), "STORE"),
    ],
)
def test_malformed_nodes(u: UOp, match: str) -> None:
    if match:
        refused(Program((X,), (u,)), match)
    else:
        verify(Program((X,), (u,)))


def test_calls_fit_their_programs() -> None:
    double = close((S,), (b.add(S, S),))
    x, i = slot_param(0, dt.float32, (3,)), slot_param(1, dt.int32, ())
    refused(
        Program((x,), tuple(gets(uop(Op.CALL, (x,), Call(double, "checkpoint"))))), "argument 0"
    )
    cond = uop(Op.COND, (i, x), Cond((double,)))
    refused(Program((x, i), tuple(gets(cond))), "operand 0")
    loop = uop(Op.WHILE, (b.const(1.0, dt.float32),), While(double, double, 0))
    refused(Program((), tuple(gets(loop))), "one bool scalar")
    body = close((S,), (b.lt(S, S),))
    scan = uop(Op.SCAN, (b.const(1.0, dt.float32),), Scan(body, 3, 0, 1, 0))
    refused(Program((), tuple(gets(scan))), "carry 0 is bool")
    short = uop(Op.SCAN, (x,), Scan(double, 2, 0, 0, 1))
    refused(Program((x,), tuple(gets(short))), "is not 2 steps of")


def test_effects_name_a_parameter_and_an_output_of_its_aval() -> None:
    good = Program((X,), (b.neg(X),), ((0, 0),))
    verify(good)
    refused(replace(good, effects=((0, 1),)), "out of range")
    refused(Program((X,), (b.reduce_(X, [0]),), ((0, 0),)), "final version of slot 0")


def test_void_nodes_are_dependencies_only() -> None:
    store = uop(Op.STORE, (X, X), Mode.SET)
    with pytest.raises(SpecError, match="has no value"):
        verify_nodes([uop(Op.TUPLE, (store,))], RAW)


# ---- step
def test_a_step_checks_what_the_pass_made() -> None:
    program = Program((X,), (b.neg(b.neg(X)),))

    def bad(p: Program) -> Program:
        return replace(p, outs=(uop(Op.LOAD, (X,)),))

    with config.override(check="spec"), pytest.raises(SpecError, match="after the pass trace/bad"):
        step("trace/bad", bad, program)
    with config.override(check=""):
        assert step("trace/bad", bad, program) == bad(program)


def test_a_step_prints_the_program_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    program = Program((X,), (b.sin(b.neg(b.neg(X))),))
    with config.override(show="trace:loss"):
        out = step("trace/simplify", simplify_program, program, function="loss")
        step("trace/simplify", simplify_program, program, function="other")
        step("trace/simplify", simplify_program, out, function="loss")
    text = capsys.readouterr().err
    assert text.count("==") == 2
    assert "== trace/simplify of loss: 4 -> 2 nodes, " in text
    assert "program(%0: float32[3])\n  %1 = SIN %0" in text
    assert "unchanged" in text


def test_passes_are_chosen_by_room_pass_or_function() -> None:
    with config.override(show="lower,jvp:loss"):
        assert is_shown("lower/place") and is_shown("trace/jvp", "loss")
        assert not is_shown("trace/jvp", "f") and not is_shown("trace/simplify")
    assert TRACED.name == "TRACED"
