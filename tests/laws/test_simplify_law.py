"""simplify keeps every value, and does not need a second pass."""

from hypothesis import given, settings

from fgrad.trace.reference import run_program
from fgrad.uop.simplify import simplify, simplify_program
from fgrad.uop.spec import verify
from tests.laws.programs import EVERY, Case, close_to, programs


@settings(max_examples=100)
@given(programs(max_nodes=14))
def test_simplified_programs_have_the_same_values(case: Case) -> None:
    program, arrays = case
    small = simplify_program(program)
    for got, want in zip(run_program(small, arrays), run_program(program, arrays), strict=True):
        close_to(got, want)


@settings(max_examples=100)
@given(programs(max_nodes=10, dtypes=EVERY))
def test_simplified_programs_have_the_same_values_in_every_dtype(case: Case) -> None:
    program, arrays = case
    small = simplify_program(program)
    for got, want in zip(run_program(small, arrays), run_program(program, arrays), strict=True):
        close_to(got, want)


@settings(max_examples=100)
@given(programs(max_nodes=8, control=True))
def test_simplified_loops_and_branches_have_the_same_values(case: Case) -> None:
    program, arrays = case
    small = simplify_program(program)
    verify(small)
    for got, want in zip(run_program(small, arrays), run_program(program, arrays), strict=True):
        close_to(got, want, slack=10.0)


@given(programs(max_nodes=14))
def test_simplifying_again_changes_nothing(case: Case) -> None:
    program, _ = case
    once = simplify(program.outs)
    assert simplify(once) == once
