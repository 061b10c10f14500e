"""FGRAD_CHECK=keys: random keys that are used twice."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import lax, random
from fgrad.config import config
from fgrad.errors import KeyReuseError
from fgrad.run import keys as held
from fgrad.trace.keys import Run, flow

REUSED = "has taken before"
IN_A_LOOP = "the same key in every step of a loop"
normal = random.normal


@pytest.fixture(autouse=True)
def checked() -> Iterator[None]:
    with config.override(check=config.check | {"keys"}):
        yield


def two(key: Any) -> Any:
    a, b = random.split(key)
    return normal(a) + normal(b)


def used_twice(key: Any) -> Any:
    return random.uniform(key) + normal(key)


def ways() -> dict[str, Callable[[Callable[[Any], Any]], Any]]:
    """Ways to run a function of a key."""

    def jitted(f: Any) -> Any:
        return fgrad.jit(f)(random.key(0))

    return {
        "eager": lambda f: f(random.key(0)),
        "bare words": lambda f: f(random.PRNGKey(0)),
        "four words": lambda f: f(random.key(0, impl="rbg")),
        "jit": jitted,
        "jit in jit": lambda f: jitted(fgrad.jit(f)),
        "vmap": lambda f: fgrad.vmap(f)(random.split(random.key(0), 3)),
        "vmap of one key": lambda f: fgrad.vmap(lambda k, x: f(k) + x, (None, 0))(random.key(0), fnp.ones(3)),
        "grad": lambda f: fgrad.grad(lambda x: x * f(random.key(0)))(1.0),
        "closed over by grad": lambda f: (lambda k: fgrad.grad(lambda x: x * f(k))(1.0))(random.key(0)),
        "jvp of jit": lambda f: fgrad.jvp(fgrad.jit(lambda x: x * f(random.key(0))), (1.0,), (1.0,)),
        "checkpoint": lambda f: fgrad.grad(lambda x: fgrad.checkpoint(lambda x, k: x * f(k))(x, random.key(0)))(1.0),
        "scan over keys": lambda f: lax.scan(lambda c, k: (c + f(k), None), 0.0, random.split(random.key(0), 4)),
        "scan with a key": lambda f: lax.scan(
            lambda k, _: (k2s := random.split(k)) and (k2s[0], f(k2s[1])), random.key(0), None, length=4
        ),
        "map": lambda f: lax.map(f, random.split(random.key(0), 3)),
        "fori_loop": lambda f: lax.fori_loop(
            0, 3, lambda i, c: c + f(random.fold_in(c.dtype and random.key(0), i)), 0.0
        ),
        "while_loop": lambda f: lax.while_loop(
            lambda s: s[1] < 3, lambda s: (random.fold_in(s[0], 1), s[1] + 1, s[2] + f(s[0])), (random.key(0), 0, 0.0)
        ),
        "cond": lambda f: lax.cond(True, f, lambda k: 0.0, random.key(0)),
        "cond under vmap": lambda f: fgrad.vmap(lambda p, k: lax.cond(p, f, lambda k: 0.0, k))(
            fnp.array([True, False]), random.split(random.key(0))
        ),
        "grad of a checkpointed scan": lambda f: fgrad.grad(
            lambda x: lax.scan(lambda c, k: (c * f(k), None), x, random.split(random.key(0), 4), checkpoint="sqrt")[0]
        )(1.0),
        "jit of grad of a scan": lambda f: fgrad.jit(
            fgrad.grad(lambda x, ks: lax.scan(lambda c, k: (fnp.sin(c) * f(k), None), x, ks)[0])
        )(1.0, random.split(random.key(0), 5)),
        "unrolled": lambda f: lax.scan(lambda c, k: (c + f(k), None), 0.0, random.split(random.key(0), 4), unroll=True),
    }


@pytest.mark.parametrize("way", ways())
def test_a_key_that_is_used_twice_is_found_in_every_way_to_run(way: str) -> None:
    ways()[way](two)
    with pytest.raises(KeyReuseError, match=REUSED):
        ways()[way](used_twice)


def test_both_uses_are_named_with_their_lines_and_the_way_out() -> None:
    key = random.key(0)
    random.uniform(key)
    with pytest.raises(
        KeyReuseError,
        match=r"^random\.normal \(.*test_keys\.py:\d+, in test_both.* takes a key that random\.uniform "
        r"\(.*test_keys\.py:\d+, in test_both.*\) has taken before.* key, sub = random\.split\(key\), or say with "
        r"random\.clone",
    ):
        normal(key)
    with pytest.raises(KeyReuseError, match=r"normal \([^,]*, in used_twice\) .*uniform \([^,]*, in used_twice\) has"):
        fgrad.jit(used_twice)(random.key(1))
    f, key = fgrad.jit(two), random.key(2)
    f(key)
    with pytest.raises(
        KeyReuseError, match=r"split \([^,]*, in two, called at .*\).*split \([^,]*, in two, called at .*\)"
    ):
        f(key)


def test_a_second_call_of_a_jitted_function_uses_its_key_again() -> None:
    key, f = random.key(0), fgrad.jit(two)
    f(key)
    for _ in range(2):
        with pytest.raises(KeyReuseError, match=REUSED):
            f(key)
    f(random.key(0))
    g = fgrad.jit(lambda x: x + normal(key))  # closed over, and used up already
    with pytest.raises(KeyReuseError, match=REUSED):
        g(1.0)
    other = random.key(1)
    h = fgrad.jit(lambda x: x + normal(other))
    h(1.0)
    with pytest.raises(KeyReuseError, match=REUSED):
        h(1.0)


@pytest.mark.parametrize("make", [random.key, random.PRNGKey])
def test_keys_of_an_array_are_told_apart_by_their_place(make: Any) -> None:
    keys = random.split(make(0), 5)
    normal(keys[0])
    normal(keys[-1])
    two(keys[1:3][1])
    fgrad.vmap(normal)(keys[1:4:2])
    turned = keys.reshape(5, 1, *keys.shape[1:])
    for again in (lambda: keys[0], lambda: keys[2], lambda: keys[3:][0], lambda: turned[4, 0]):
        with pytest.raises(KeyReuseError, match=REUSED):
            normal(again())
    with pytest.raises(KeyReuseError, match=REUSED):
        fgrad.vmap(normal)(keys)

    @fgrad.jit
    def rows(keys: Any) -> Any:
        a, b, c = keys
        return normal(a) + normal(keys[1]) + normal(c), keys

    _, same = rows(random.split(make(0), 3))
    with pytest.raises(KeyReuseError, match=REUSED):
        normal(same[2])
    with pytest.raises(KeyReuseError, match=REUSED):
        fgrad.jit(lambda ks: normal(ks[0]) + fnp.sum(fgrad.vmap(normal)(ks)))(random.split(make(0), 3))


def test_keys_put_together_are_the_keys_they_were() -> None:
    a, b = random.PRNGKey(0), random.PRNGKey(1)
    normal(a)
    both = fnp.stack([a, b])
    normal(both[1])
    with pytest.raises(KeyReuseError, match=REUSED):
        normal(both[0])
    with pytest.raises(KeyReuseError, match=REUSED):
        normal(b)
    keys = random.split(random.PRNGKey(2), 4)
    normal(keys[2])
    with pytest.raises(KeyReuseError, match=REUSED):
        fgrad.vmap(normal)(keys[fnp.array([0, 2])])
    fgrad.vmap(normal)(keys[fnp.array([0, 3])])


def test_split_uses_its_key_and_fold_in_does_not() -> None:
    key = random.key(0)
    for i in range(3):
        normal(random.fold_in(key, i))
    normal(random.fold_in(key, 0))  # a new key each time, as far as identity goes
    random.split(key)
    for use in (random.split, normal):
        with pytest.raises(KeyReuseError, match=r"random\.split .* has taken before"):
            use(key)
    with pytest.raises(KeyReuseError, match=REUSED):  # one value of one program
        fgrad.jit(lambda k: normal(random.fold_in(k, 3)) - normal(random.fold_in(k, 3)))(random.key(1))


@pytest.mark.parametrize("make", [random.key, random.PRNGKey])
def test_a_clone_may_be_used_like_a_new_key(make: Any) -> None:
    key = make(0)
    twin, third = random.clone(key), random.clone(key)
    assert normal(key) == normal(twin) == normal(third)
    with pytest.raises(KeyReuseError, match=REUSED):
        normal(twin)
    f = fgrad.jit(lambda k: normal(random.clone(k)) - normal(k) + normal(random.clone(k)))
    assert f(make(1)) == normal(make(1))


def test_loops_take_a_new_key_in_every_step() -> None:
    key = random.key(0)

    def same(c: Any, _: Any) -> Any:
        return c + normal(key), None

    for run in (
        lambda: lax.scan(same, 0.0, None, length=3),
        lambda: fgrad.jit(lambda k: lax.fori_loop(0, 3, lambda i, c: c + normal(k), 0.0))(random.key(0)),
        lambda: lax.scan(lambda k, _: (k, normal(k)), random.key(0), None, length=3),
        lambda: lax.scan(lambda k, _: (k, normal(k)), random.key(0), None, length=3, unroll=3),
        lambda: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + normal(key)), (0, 0.0)),
        lambda: lax.scan(lambda *_: (None, normal(key)), None, None, length=3),
        lambda: lax.map(lambda x: x + normal(key), fnp.ones(3)),
        lambda: lax.map(lambda x: fgrad.vmap(normal)(random.split(key)), fnp.ones(3)),
        lambda: lax.scan(lambda c, _: (lax.scan(same, c, None, length=1)[0], None), 0.0, None, length=3),
        lambda: lax.fori_loop(0, 4, lambda i, c: c + lax.cond(i == 0, normal, lambda k: 0.0, key), 0.0),
        lambda: fgrad.jit(lambda k: lax.scan(lambda c, k: (c + normal(k), None), 0.0, fnp.broadcast_to(k, (3, 2))))(
            random.PRNGKey(0)
        ),
    ):
        with pytest.raises(KeyReuseError, match=IN_A_LOOP):
            run()
    lax.scan(same, 0.0, None, length=1)


def test_keys_that_change_places_in_a_loop_are_followed() -> None:
    def turned(keys: Any, _: Any) -> Any:
        a, b, c = keys
        return (b, c, a), normal(a)

    three = tuple([random.key(i) for i in range(3)])
    lax.scan(turned, three, None, length=3)
    with pytest.raises(KeyReuseError, match=REUSED):
        normal(three[2])
    with pytest.raises(KeyReuseError, match=IN_A_LOOP):
        lax.scan(turned, tuple([random.key(i) for i in range(3)]), None, length=4)


def test_what_comes_out_of_a_loop_is_used_as_far_as_it_was_used_inside() -> None:
    key, draws = lax.scan(lambda k, _: (random.fold_in(k, 1), normal(k)), random.key(0), None, length=3)
    assert draws.shape == (3,)
    normal(key)
    _, subs = lax.scan(lambda k, _: tuple(random.split(k)), random.key(0), None, length=4)
    fgrad.vmap(normal)(subs)

    _, (subs, _) = lax.scan(
        lambda k, _: (lambda ks: (ks[0], (ks[1], normal(ks[1]))))(random.split(k)), random.key(0), None, length=4
    )
    with pytest.raises(KeyReuseError, match=REUSED):
        normal(subs[3])
    keys = random.split(random.key(5), 4)
    lax.scan(lambda c, k: (c + normal(k), None), 0.0, keys)
    with pytest.raises(KeyReuseError, match=REUSED):
        normal(keys[3])


def test_numbers_that_are_thrown_away_do_not_count() -> None:
    def f(key: Any) -> Any:
        random.uniform(key)
        return normal(key)

    fgrad.jit(f)(random.key(0))
    with pytest.raises(KeyReuseError, match=REUSED):
        f(random.key(0))


def test_a_condition_and_its_body_are_two_uses() -> None:
    def body(s: Any) -> Any:
        return random.split(s[0])[0], s[1] + 1

    with pytest.raises(KeyReuseError, match=REUSED):
        lax.while_loop(lambda s: (normal(s[0]) > -9.0) & (s[1] < 3), body, (random.key(0), 0))


def test_only_one_of_several_branches_runs() -> None:
    def choose(p: Any, key: Any) -> Any:
        return lax.cond(p, normal, random.uniform, key)

    choose(True, random.key(0))
    fgrad.vmap(choose)(fnp.array([True, False]), random.split(random.key(0)))
    fgrad.jit(choose)(True, random.key(0))
    lax.switch(1, [normal, normal, two], random.key(0))
    key = random.key(1)
    choose(False, key)
    with pytest.raises(KeyReuseError, match=REUSED):
        normal(key)
    with pytest.raises(KeyReuseError, match=REUSED):
        fgrad.jit(lambda p, k: choose(p, k) + choose(~p, k))(True, random.key(0))
    # a loop with a bound is a scan of branches: one splits the key, the other keeps it
    lax.while_loop(lambda s: s[1] < 3, lambda s: (random.split(s[0])[0], s[1] + 1), (random.key(0), 0), max_steps=5)


def test_what_is_computed_twice_for_a_derivative_is_one_use() -> None:
    key = random.key(0)
    value, back = fgrad.vjp(lambda x: fgrad.checkpoint(lambda x: fnp.sin(x * normal(key)))(x), 1.0)
    back(1.0)
    back(2.0)
    with pytest.raises(KeyReuseError, match=REUSED):
        normal(key)

    @fgrad.custom_vjp
    def noisy(x: Any, key: Any) -> Any:
        return x * normal(key)

    def forward(x: Any, key: Any) -> Any:
        factor = normal(key)
        return x * factor, factor

    noisy.defvjp(forward, lambda factor, ct: (ct * factor, None))
    assert fgrad.grad(noisy)(1.0, random.key(0)) == normal(random.key(0))
    fgrad.hessian(lambda x: fnp.sum(noisy(fnp.sin(x), random.key(0))))(fnp.ones(2))


def test_numbers_are_the_same_as_without_the_check() -> None:
    def draw() -> list[Any]:
        return [
            *[np.asarray(ways()[way](two)) for way in ("eager", "jit", "vmap", "grad", "cond under vmap")],
            fgrad.random.multivariate_normal(random.key(0), fnp.zeros(2), fnp.eye(2), (3,)),
            random.gamma(random.key(0), 2.5, (3,)),
            random.choice(random.key(0), 5, (3,), replace=False),
        ]

    checked = draw()
    with config.override(check=config.check - {"keys"}):
        plain = draw()
    for a, b in zip(checked, plain, strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_function_of_random_uses_its_key_once() -> None:
    p = fnp.array([0.2, 0.8])
    calls: dict[str, tuple[Any, ...]] = {
        "ball": (2,), "bernoulli": (), "beta": (1.0, 2.0), "binomial": (5, 0.3), "bits": (), "categorical": (p,),
        "cauchy": (), "chisquare": (2.0,), "choice": (5,), "dirichlet": (p,), "double_sided_maxwell": (0.0, 1.0),
        "exponential": (), "f": (2.0, 3.0), "gamma": (2.0,), "generalized_normal": (1.5,), "geometric": (0.3,),
        "gumbel": (), "laplace": (), "loggamma": (2.0,), "logistic": (), "lognormal": (), "maxwell": (),
        "multinomial": (5, p), "multivariate_normal": (p, fnp.eye(2)), "normal": (), "orthogonal": (2,),
        "pareto": (2.0,), "permutation": (5,), "poisson": (3.0,), "rademacher": (), "randint": ((), 0, 5),
        "rayleigh": (1.0,), "shuffle": (p,), "split": (), "t": (2.0,), "triangular": (0.0, 0.5, 1.0),
        "truncated_normal": (-1.0, 1.0), "uniform": (), "wald": (1.0,), "weibull_min": (1.0, 2.0),
    }  # fmt: skip
    makers = {"KeyArray", "PRNGKey", "clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "wrap_key_data"}
    assert set(calls) | makers == set(random.__all__)
    key = random.key(0)
    for name, more in calls.items():
        draw = getattr(random, name)
        once = fgrad.make_program(lambda k, draw=draw, more=more: draw(k, *more))(key)
        flow(once, [None] * len(once.params), Run(1))
        twice = fgrad.make_program(lambda k, draw=draw, more=more: (draw(k, *more), draw(k, *more)))(key)
        name = {"shuffle": "permutation"}.get(name, name)
        with pytest.raises(KeyReuseError, match=rf"^random\.{name} \(.*test_keys.* that random\.{name} \(.*test_keys"):
            flow(twice, [None] * len(twice.params), Run(1))


def test_nothing_is_remembered_of_arrays_that_are_gone_or_without_the_check() -> None:
    gc.collect()
    before = len(held._held)
    keys = [random.key(i) for i in range(5)]
    for key in keys:
        normal(key)
    assert len(held._held) == before + 5
    del keys, key
    gc.collect()
    assert len(held._held) == before
    with config.override(check=""):
        key = random.key(0)
        assert normal(key) == normal(key)
    with fgrad.debug_key_reuse(False):
        assert normal(key) == normal(key)
    config.update("jax_debug_key_reuse", False)
    assert "keys" not in config.check
    config.update("jax_debug_key_reuse", True)
    assert "keys" in config.check


def test_a_ref_holds_keys_like_an_array() -> None:
    state = fgrad.new_ref(random.PRNGKey(0))

    @fgrad.jit
    def draw() -> Any:
        following, sub = random.split(state[...])
        state[...] = following
        return normal(sub)

    assert draw() != draw()

    @fgrad.jit
    def forgetful() -> Any:
        return normal(state[...])

    forgetful()
    with pytest.raises(KeyReuseError, match=REUSED):
        forgetful()
