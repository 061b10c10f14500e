"""jit: signatures, static and donated arguments, captures, errors."""

import gc
import threading

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import jit
from fgrad.errors import ArgumentError, ConcretizationError, DonatedError, LeakedTracerError


def test_a_jitted_function_is_a_plain_function_with_its_own_name_and_doc():
    @jit
    def area(w, h=2.0):
        """Width times height."""
        return w * h

    assert type(area) is type(lambda: 0)
    assert (area.__name__, area.__doc__) == ("area", "Width times height.")
    for _ in range(3):
        assert float(area(3.0)) == 6.0
        assert float(area(3.0, h=4.0)) == 12.0
        assert float(area(h=5.0, w=1.0)) == 5.0


def test_python_numbers_do_not_compile_again_but_dtypes_and_shapes_do():
    traces = []

    @jit
    def f(x, s):
        traces.append(1)
        return x * s

    x = fnp.arange(4.0)
    for s in (1.0, 2.0, -3.5):
        np.testing.assert_array_equal(np.asarray(f(x, s)), np.arange(4.0, dtype=np.float32) * np.float32(s))
    assert len(traces) == 1
    f(x, 2)
    assert len(traces) == 2
    f(fnp.arange(5.0), 2.0)
    assert len(traces) == 3


def test_trees_in_and_out_keep_their_structure():
    @jit
    def f(t):
        return {"sum": t["a"] + t["b"][0], "pair": (t["b"][1], None), "list": [t["a"]]}

    t = {"a": fnp.ones(3), "b": (fnp.ones(3), np.float32(2))}
    for _ in range(3):
        out = f(t)
        assert set(out) == {"sum", "pair", "list"} and out["pair"][1] is None
        np.testing.assert_array_equal(np.asarray(out["sum"]), 2.0)
        assert float(out["pair"][0]) == 2.0


def test_many_alternating_signatures_stay_right():
    f = jit(lambda x: x + 1)
    for _ in range(3):
        for n in range(8):
            assert f(fnp.zeros(n)).shape == (n,)
    assert f.cache_size() == 8
    f.clear_cache()
    assert f.cache_size() == 0
    assert float(f(2.0)) == 3.0


def test_static_arguments_are_python_values_and_compare_with_their_types():
    @jit
    def plain(x):
        return x

    f = jit(lambda x, n: x * n if isinstance(n, int) else x + n, static_argnums=1)
    assert float(f(3.0, 2)) == 6.0
    assert float(f(3.0, 2.0)) == 5.0
    g = jit(lambda x, *, mode="a": x if mode == "a" else -x, static_argnames="mode")
    assert float(g(1.0)) == 1.0
    assert float(g(1.0, mode="b")) == -1.0
    with pytest.raises(ArgumentError, match="cannot be hashed"):
        f(1.0, [1])
    with pytest.raises(ArgumentError, match="static_argnames has 'nope'"):
        jit(lambda x: x, static_argnames="nope")
    with pytest.raises(ArgumentError, match="3 positional|has 5"):
        jit(lambda a, b, c: a, static_argnums=5)


def test_donated_arrays_are_unusable_afterwards_and_say_who_took_them():
    step = jit(lambda w, g: w - g, donate_argnums=0)
    w, g = fnp.ones(100), fnp.ones(100)
    out = step(w, g)
    assert float(out.sum()) == 0.0
    assert w.is_deleted() and not g.is_deleted()
    with pytest.raises(DonatedError, match="donated to"):
        step(w, g)
    with pytest.raises(DonatedError, match="donated"):
        np.asarray(w)
    for _ in range(5):
        out = step(out, g)
    assert float(out[0]) == -5.0


def test_a_call_with_captured_arrays_takes_the_short_path():
    w = fnp.arange(3.0)
    f = jit(lambda x: x + w)
    x = fnp.ones(3)
    f(x)
    (entry,) = f.dispatcher.entries.values()
    (sig,) = entry.out_sigs
    list.append(sig.free, sig.take())  # there is a free block, also where the pool keeps none
    np.testing.assert_array_equal(entry.short([x]), [1, 2, 3])


def test_captured_arrays_are_parameters_and_stay_alive():
    def scale_by(w):
        return jit(lambda x: x * w)

    f = scale_by(fnp.arange(3.0))
    gc.collect()
    np.testing.assert_array_equal(np.asarray(f(fnp.ones(3))), [0, 1, 2])


def test_numpy_arguments_are_copied_before_the_call_returns():
    f = jit(lambda x: x + 0)
    x = np.zeros(5, np.float32)
    y = f(x)
    x[:] = 7
    np.testing.assert_array_equal(np.asarray(y), 0)


def test_results_never_share_storage_with_arguments_or_each_other():
    f = jit(lambda x: (x, x, x))
    x = fnp.arange(10.0)
    outs = f(x)
    addresses = {np.asarray(a).__array_interface__["data"][0] for a in (x, *outs)}
    assert len(addresses) == 4


def test_control_flow_on_a_traced_value_says_what_to_use():
    @jit
    def f(x):
        return x if x > 0 else -x

    with pytest.raises(ConcretizationError, match="cond"):
        f(1.0)


def test_a_leaked_tracer_is_named():
    kept = []

    @jit
    def f(x):
        kept.append(x)
        return x

    f(1.0)
    with pytest.raises(LeakedTracerError):
        jit(lambda y: y + kept[0])(2.0)
    with pytest.raises((LeakedTracerError, ConcretizationError)):
        float(kept[0])


def test_arguments_that_are_no_arrays_are_named_by_their_path():
    with pytest.raises(TypeError, match=r"\['name'\]"):
        jit(lambda t: t["x"])({"x": 1.0, "name": "w"})


def test_results_that_are_no_arrays_are_refused():
    with pytest.raises(TypeError, match="must return arrays"):
        jit(lambda x: "text")(1.0)


def test_lower_shows_every_stage_and_costs():
    lowered = jit(lambda x: fnp.exp(x) + 1).lower(fnp.ones((4, 4)))
    assert "EXP" in lowered.as_text("program").upper()
    for stage in ("kernels", "commands"):
        assert isinstance(lowered.as_text(stage), str)
    assert lowered.out_info.shape == (4, 4)
    assert set(lowered.cost_analysis()) == {"flops", "bytes accessed", "kernels"}
    np.testing.assert_allclose(np.asarray(lowered.compile()(fnp.zeros((4, 4)))), 2.0)
    with pytest.raises(ValueError, match="no stage"):
        lowered.as_text("poem")


def test_eval_shape_runs_nothing():
    out = fgrad.eval_shape(lambda x, y: {"z": x @ y}, fgrad.ShapeDtypeStruct((2, 3), "float32"), fnp.ones((3, 5)))
    assert out["z"].shape == (2, 5) and out["z"].dtype == np.float32


def test_jit_inside_jit_and_transforms_is_inlined():
    inner = jit(lambda x: x * x)
    assert float(jit(lambda x: inner(x) + inner(x))(3.0)) == 18.0
    assert float(fgrad.grad(inner)(3.0)) == 6.0
    np.testing.assert_array_equal(np.asarray(fgrad.vmap(inner)(fnp.arange(3.0))), [0, 1, 4])


def test_threads_may_call_one_function_at_once():
    f = jit(lambda t: {"y": t["x"] * 2 + t["b"]})
    wrong = []

    def work(k):
        x = fnp.full((50,), float(k))
        for i in range(300):
            y = f({"x": x, "b": float(i)})["y"]
            if float(y[3]) != 2 * k + i:
                wrong.append((k, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_integers_beyond_64_bits_are_refused_not_truncated():
    f = jit(lambda n: n + 1)
    assert int(f(2**40)) == 2**40 + 1
    with pytest.raises(OverflowError):
        f(2**70)


def test_empty_and_scalar_arrays_pass():
    f = jit(lambda x: (x * 2, x.sum()))
    y, s = f(fnp.zeros((0, 3)))
    assert y.shape == (0, 3) and float(s) == 0.0
    assert int(f(np.int8(3))[0]) == 6


def test_a_default_that_is_not_given_stays_a_python_value():
    def f(x, y=2.0, flag=True):
        return x * y if flag else -x

    g = jit(f)
    x = fnp.ones(2)
    for _ in range(3):  # by the general path, then by the short one
        assert g(x).tolist() == [2, 2]
        assert g(x, 3.0).tolist() == [3, 3]
        assert g(x, y=fnp.zeros(2)).tolist() == [0, 0]
    assert jit(fnp.max)(x) == 1
