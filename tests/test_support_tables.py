"""The tables of what works with what name every function, and their maker tells right from wrong."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import custom_jvp

DOCS = Path(__file__).parent.parent / "docs"


def load_support() -> ModuleType:
    """The module that makes the tables; it is not part of the package."""
    spec = importlib.util.spec_from_file_location("fgrad_docs_support", DOCS / "support.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


support = load_support()


@pytest.mark.parametrize("module", support.MODULES)
def test_the_table_names_every_function(module: str) -> None:
    """If this fails, run: python docs/support.py"""
    assert set(support.read(module)) == set(support.functions(module))


@pytest.mark.parametrize("module", support.MODULES)
def test_the_table_stands_on_its_page_and_every_row_is_whole(module: str) -> None:
    assert f":file: support-tables/{module}.csv" in (DOCS / "support.rst").read_text(encoding="utf-8")
    for row in support.read(module).values():
        assert len(row) == len(support.HEADER)
        assert set(row[1:-1]) <= {"yes", "no", "some", "0", "-"}
        assert "yes" in row[1 : 1 + len(support.KINDS)] or "some" in row


def test_a_row_says_what_works() -> None:
    yes = ["yes"] * 4
    assert support.probe("numpy", "sin") == ["sin", *["yes"] * 6, *yes, "sin(x)"]
    assert support.probe("numpy", "argmax")[-5:] == ["-", "-", "yes", "yes", "argmax(x)"]
    assert support.probe("numpy", "bitwise_xor")[1:7] == ["yes", "yes", "yes", "no", "no", "no"]
    assert support.probe("numpy", "nonzero")[-3:-1] == ["no", "no"]


def broken(call: Any) -> Any:
    return support.Trial("broken(x)", ("x",), call)


def test_a_wrong_derivative_is_noticed() -> None:
    @custom_jvp
    def wrong(x: Any) -> Any:
        return x * x

    wrong.defjvp(lambda primals, tangents: (primals[0] * primals[0], tangents[0]))
    xs = [np.array([0.3, 0.7])]
    assert not support.has_jvp(broken(wrong), xs)
    assert support.has_jvp(broken(fnp.square), xs) and support.has_vjp(broken(fnp.square), xs)
    with pytest.raises(AssertionError, match="a result is wrong"):
        support.works(lambda: support.has_jvp(broken(wrong), xs))


def test_names_of_parameters_tell_how_to_call_and_examples_tell_the_rest() -> None:
    assert support.trial("numpy", "arctan2").text == "arctan2(x, y)"
    assert support.trial("numpy", "take").text == "take(x, [0, 2])"
    assert support.trial("lax", "scan").operands == ("x", "y")
    with pytest.raises(ValueError, match="EXAMPLES has to say"):
        support.trial("numpy", "linspace")
