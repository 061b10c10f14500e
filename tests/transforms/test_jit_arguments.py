"""What jit is told about its arguments, and what a lowered function knows of them."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import jit
from fgrad.errors import ArgumentError, ConcretizationError, LeakedTracerError, StaticArgumentError


def f(a, b, c):
    return a


def h(a, /, b, *args, c=0, **kwargs):
    return a


@pytest.mark.parametrize("what", ["static_argnames", "donate_argnames"])
def test_names_must_be_those_of_parameters(what):
    jit(f, **{what: ("b", "c")})
    jit(h, **{what: ("b", "c", "anything")})
    for fun, names in ((f, ("b", "d")), (h, ("a",)), (h, ("args",)), (h, ("kwargs",))):
        with pytest.raises(StaticArgumentError, match=names[-1]) as error:
            jit(fun, **{what: names})
        assert isinstance(error.value, ValueError) and isinstance(error.value, TypeError)
    with pytest.raises(StaticArgumentError, match="cannot intersect"):
        jit(f, static_argnames="a", donate_argnames="a")


def test_names_need_a_signature():
    class Unknown:
        @property
        def __signature__(self):
            raise TypeError("no signature")

        def __call__(self, *args):
            return args[0]

    with pytest.raises(StaticArgumentError, match="Pass donate_argnums instead of donate_argnames"):
        jit(Unknown(), donate_argnames="a")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: jit(lambda x: x)("foo"), TypeError, "'foo'"),
        (lambda: jit(lambda p: p)({"w": [1.0, None, fnp.int32]}), TypeError, r"\['w'\]\[2\]"),
        (lambda: jit(3), TypeError, "jit needs a function"),
        (lambda: jit(lambda: (yield 1)), TypeError, "Expected a function, got a generator function"),
        (lambda: jit(lambda x: x)(np.ma.array([1, 2], mask=[True, False])), ValueError, "masked arrays are not supp"),
        (lambda: fnp.asarray(np.ma.array([1, 2])), ValueError, "masked arrays are not supported"),
        (lambda: jit(lambda x: float(x))(1.0), ConcretizationError, r"x.astype\(float\)"),
        (lambda: jit(lambda x: complex(x))(1.0), ConcretizationError, r"x.astype\(complex\)"),
        (lambda: jit(lambda n: list(range(n)))(3), ConcretizationError, r"The __index__\(\) method was called"),
        (lambda: jit(lambda n: int(n))(3.0), ConcretizationError, r"x.astype\(int\)"),
        (lambda: jit(f, compiler_options={})(1, 2, 3), NotImplementedError, "compiler_options"),
    ],
)
def test_mistakes_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_tracers_that_outlive_their_function_are_named():
    kept = []
    jit(lambda x: kept.append(x))(1.0)
    with pytest.raises(LeakedTracerError, match="Encountered an unexpected tracer"):
        jit(lambda y: kept[0] + y)(1.0)
    with pytest.raises(LeakedTracerError, match="Encountered an unexpected tracer"):
        fnp.add(kept[0], 1.0)


def test_a_lowered_function_describes_its_arguments():
    x, y = {"A": fnp.ones(3), "B": fnp.ones(3)}, fnp.ones(())
    lowered = jit(lambda x, y: (x, y * 2), donate_argnums=1).lower(x, y)
    (a, b), kwargs = lowered.args_info
    assert not a["A"].donated and not a["B"].donated and b.donated and kwargs == {}
    assert a["A"].shape == (3,) and a["A"].dtype == np.float32
    compiled = lowered.compile()
    assert compiled.args_info == lowered.args_info
    assert compiled.cost_analysis() == lowered.cost_analysis() and compiled.memory_analysis()["output_bytes"] == 28
    assert compiled.as_text("kernels") == lowered.as_text("kernels")
    assert float(compiled(x, y)[1]) == 2
    with pytest.raises(AttributeError, match="has no attribute 'runtime_executable'"):
        compiled.runtime_executable()


def test_a_compiled_function_takes_its_own_signature_only():
    compiled = jit(lambda x, y: x).lower(fnp.ones(2), 1.0).compile()
    with pytest.raises(TypeError, match="compiled with input pytree does not match the input pytree"):
        compiled([fnp.ones(2)], 1.0)
    with pytest.raises(TypeError, match=r"(?s)mismatches are:.*compiled with float32\[2\] and called with int32\[2\]"):
        compiled(fnp.ones(2, "int32"), 1.0)


def test_shapes_have_a_length_and_a_dtype():
    s = fgrad.ShapeDtypeStruct((2, 3), "float32")
    assert len(s) == 2 and s.ndim == 2
    assert fgrad.ShapeDtypeStruct((0,), "int8")
    with pytest.raises(TypeError, match="unsized"):
        len(fgrad.ShapeDtypeStruct((), "int8"))
    with pytest.raises(ValueError, match="dtype must be specified"):
        fgrad.ShapeDtypeStruct((2,), None)


def test_programs_of_functions_with_python_values():
    def power(n, x, k):
        return x**n if k == "power" else x

    for positions in ((0, 2), (2, 0), (-1, 0)):
        assert str(fgrad.make_jaxpr(power, static_argnums=positions)(2, 3.0, "power")) == str(
            fgrad.make_jaxpr(lambda x: x**2)(3.0)
        )


def test_numbers_come_back_from_devices_as_they_are():
    got = fgrad.device_get({"n": 2, "x": fnp.ones(2), "s": np.float32(1)})
    assert type(got["n"]) is int and type(got["x"]) is np.ndarray and type(got["s"]) is np.float32


def test_argument_numbers_are_explained():
    with pytest.raises(ArgumentError, match="argnums=2 needs that argument by position"):
        fgrad.grad(f, argnums=2)(3.0)
