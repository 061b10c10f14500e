"""Every function of fgrad.numpy against NumPy, and the laws of the transformations, by the table in `table.py`.

One call of each row is drawn for each round: few in the ordinary profiles, many with HYPOTHESIS_PROFILE=long. The
values come from compiled code. The programs of derivatives and of vmap are run by the reference evaluator, which needs
no compilation, except in the long profile.
"""

from __future__ import annotations

import inspect
import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import settings

import fgrad
import fgrad.numpy as fnp
from fgrad.test_util import check_grads
from fgrad.trace import tree
from fgrad.trace.reference import evaluate
from fgrad.trace.stage import Stage
from fgrad.trace.staging import trace
from fgrad.trace.tracer import aval_of
from tests.numpy.table import ELSEWHERE, KINDS, ROWS, Draw, Row

LONG = settings().max_examples >= 500
ROUNDS = settings().max_examples // 100 if LONG else 1
BF16 = np.dtype(ml_dtypes.bfloat16)
PLACES = {"": fnp, "linalg.": fnp.linalg, "fft.": fnp.fft}
IDS = [f"{r.name}-{sum(r.name == s.name for s in ROWS[:i])}" for i, r in enumerate(ROWS)]
every_row = pytest.mark.parametrize("row", ROWS, ids=IDS)


def public_functions() -> list[str]:
    return [
        prefix + name
        for prefix, place in PLACES.items()
        for name in place.__all__
        if callable(getattr(place, name)) and not inspect.isclass(getattr(place, name))
    ]


def test_the_table_has_every_function() -> None:
    rows = {r.name for r in ROWS}
    assert rows.isdisjoint(ELSEWHERE)
    assert rows | set(ELSEWHERE) == set(public_functions())


@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_other_functions_have_tests_of_their_own(name: str) -> None:
    pages = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py")]
    assert any(re.search(rf'fnp\.{name}\b|as_numpy\("{name}"', page) for page in pages)


# ---- arguments: NumPy's arrays among them are the operands
def flatten(part: Any) -> list[Any]:
    """The leaves of lists, tuples and dicts; everything else is a leaf."""
    if isinstance(part, dict):
        part = list(part.values())
    return [leaf for inner in part for leaf in flatten(inner)] if isinstance(part, list | tuple) else [part]


def replaced(part: Any, leaf: Callable[[Any], Any]) -> Any:
    """A nest of lists, tuples and dicts with each leaf replaced."""
    if isinstance(part, dict):
        return {key: replaced(inner, leaf) for key, inner in part.items()}
    if isinstance(part, list | tuple):
        return type(part)([replaced(inner, leaf) for inner in part])
    return leaf(part)


def numbers(result: Any) -> list[Any]:
    """The arrays and numbers of a result."""
    return [leaf for leaf in flatten(result) if leaf is not None]


class Call:
    """One call of a row's function: `operands`, and what is fixed."""

    def __init__(self, row: Row, d: Draw) -> None:
        drawn = row.draw(d)
        self.row = row
        self.args, self.options = (drawn[:-1], drawn[-1]) if drawn and isinstance(drawn[-1], dict) else (drawn, {})
        self.operands = [x for x in flatten((self.args, self.options)) if isinstance(x, np.ndarray)]

    def __str__(self) -> str:
        return f"{self.row.name}(*{self.args}, **{self.options}) of {[x.dtype.name for x in self.operands]}"

    def __call__(self, *operands: Any) -> list[Any]:
        """The results of fgrad's function."""
        left = iter(operands)

        def ours(leaf: Any) -> Any:
            """The next operand for an array, fgrad's function for one of NumPy's."""
            if isinstance(leaf, np.ndarray):
                return next(left)
            return getattr(fnp, leaf.__name__) if leaf in (np.sum, np.cumsum) else leaf

        args, options = replaced(self.args, ours), replaced(self.options, ours)
        return self._seen(self.row.function(*args, **options), args, options)

    def numpy(self) -> list[Any]:
        """The results of NumPy's."""
        args, options = (replaced(part, self._numpys) for part in (self.args, self.options))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._seen(self.row.numpys()(*args, **options), args, options)

    def _seen(self, result: Any, args: Any, options: Any) -> list[Any]:
        return numbers(self.row.view(result, *args, **options) if self.row.view else result)


    def _numpys(self, leaf: Any) -> Any:
        """bfloat16 as float32, which NumPy computes with; integers as float64 where they become floats."""
        if not isinstance(leaf, np.ndarray):
            return np.float32 if isinstance(leaf, np.dtype) and leaf == BF16 else leaf
        if leaf.dtype == BF16:
            return leaf.astype(np.float32)
        return leaf.astype(np.float64) if self.row.floats and leaf.dtype.kind in "biu" else leaf.copy()


def calls(row: Row, kinds: str = "", tame: bool = False, rounds: int = ROUNDS) -> Iterator[Call]:
    for n in range(rounds):
        rng = np.random.default_rng(zlib.crc32(f"{row.name} {IDS[ROWS.index(row)]} {n} {tame}".encode()))
        kind = rng.choice(list(kinds or row.kinds))
        yield Call(row, Draw(row, rng, KINDS[kind][-1 if tame else int(rng.integers(len(KINDS[kind])))], tame))


def disguised(x: Any, rng: np.random.Generator) -> Any:
    """An array equal to x with another layout: strided, backwards, transposed, of the other byte order."""
    match int(rng.integers(5)):
        case 0 if x.dtype != BF16:
            return x.astype(x.dtype.newbyteorder(">"))
        case 1 if x.ndim:
            wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
            wide[..., ::2] = x
            return wide[..., ::2]
        case 2 if x.ndim:
            return np.ascontiguousarray(x[::-1])[::-1]
        case 3 if x.ndim:
            return np.asfortranarray(x)
    return x


# ---- comparison
def tolerance(dtype: Any) -> float:
    return {8: 1e-12, 16: 1e-12, 4: 4e-6, 2: 4e-3}[dtype.itemsize] if dtype != BF16 else 2e-2


def width(dtype: Any) -> Any:
    """The dtype of the real numbers in it."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def compare(call: Call, got: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Shapes, dtypes and values agree, up to what rounding allows."""
    assert len(got) == len(wanted), call
    floating = [width(x.dtype) for x in call.operands if x.dtype.kind in "fcV"]
    least = max(map(tolerance, floating), default=4e-6)
    for g, w in zip(map(np.asarray, got), map(np.asarray, wanted), strict=True):
        assert g.shape == w.shape, (str(call), g.shape, w.shape)
        check_dtype(call, g, w, floating)
        exact = w.dtype.kind not in "fcV"
        rough = 0 if exact else call.row.slack * max(least, tolerance(width(g.dtype)))
        with np.errstate(all="ignore"):
            g, w = (x.astype(x.dtype if exact else np.complex128) for x in (g, w))
            scale = np.max(np.abs(w[np.isfinite(w)]), initial=1) if call.row.slack > 1 else 1
            np.testing.assert_allclose(g, w, rough, rough * scale, err_msg=str(call))
            if call.row.zeros and not exact and all(x.dtype.kind in "fV" for x in call.operands):
                nothing = (w == 0) & (g == 0)
                np.testing.assert_array_equal(np.signbit(g.real)[nothing], np.signbit(w.real)[nothing], str(call))


def check_dtype(call: Call, g: Any, w: Any, floating: Sequence[Any]) -> None:
    if w.dtype.kind in "biu" or not floating:
        kind = {"V": "f"}.get(g.dtype.kind, g.dtype.kind)
        assert kind == w.dtype.kind, (str(call), g.dtype, w.dtype)
        if w.dtype.kind in "biu" and g.ndim:
            assert g.dtype == w.dtype, (str(call), g.dtype, w.dtype)
    else:
        wanted = BF16 if w.dtype == np.float32 and BF16 in floating else w.dtype
        if call.row.narrow:
            assert g.dtype.kind == wanted.kind and width(g.dtype) in floating, (str(call), g.dtype)
        else:
            assert g.dtype == wanted, (str(call), g.dtype, wanted)


# ---- the properties
@every_row
def test_values_are_numpys(row: Row) -> None:
    for call in calls(row):
        rng = np.random.default_rng(len(str(call)))
        wanted = call.numpy()
        compare(call, call(*[disguised(x, rng) for x in call.operands]), wanted)
        if LONG and row.traced:
            compare(call, fgrad.jit(call)(*call.operands), wanted)


def interpreted(f: Callable[..., Any]) -> Callable[..., list[Any]]:
    """`f`, which returns a list of arrays, traced and run by the reference evaluator."""

    def run(*args: Any) -> list[Any]:
        leaves, in_tree = tree.flatten((args, {}))
        traced = trace(f, in_tree, [aval_of(x) for x in leaves], Stage("interpreted"))
        return evaluate(traced.outs, dict(zip(traced.params, leaves, strict=True)))

    return run


def evaluated(f: Callable[..., Any]) -> Callable[..., Any]:
    return fgrad.jit(f) if LONG else interpreted(f)


TRACED = [i for i, r in enumerate(ROWS) if r.traced]


@pytest.mark.parametrize("row", [ROWS[i] for i in TRACED], ids=[IDS[i] for i in TRACED])
def test_vmap_is_a_stack_of_calls(row: Row) -> None:
    for call in calls(row):
        if call.operands:
            rows = [call.operands, [np.flip(x).copy() for x in call.operands]]
            together = evaluated(fgrad.vmap(call))(*[np.stack(xs) for xs in zip(*rows, strict=True)])
            apart = [evaluated(call)(*xs) for xs in rows]
            compare(call, together, [np.stack(pair) for pair in zip(*apart, strict=True)])


def tame(row: Row, rounds: int = 1) -> Iterator[Call]:
    return calls(row, "f" if "f" in row.kinds else "c", tame=True, rounds=rounds)


def moves(row: Row) -> bool:
    """Do floats go into the function, and floats come out of it?"""
    if not (row.traced and row.smooth and set(row.kinds) & set("fc")):
        return False
    call = next(tame(row))
    return all(any(np.asarray(x).dtype.kind in "fc" for x in xs) for xs in (call.operands, call.numpy()))


SMOOTH = [i for i, r in enumerate(ROWS) if moves(r)]


@pytest.mark.parametrize("row", [ROWS[i] for i in SMOOTH], ids=[IDS[i] for i in SMOOTH])
def test_derivatives_are_those_of_differences(row: Row) -> None:
    for n, call in enumerate(tame(row, max(1, ROUNDS // 5))):
        f, xs, others = of_floats(call)
        if LONG and n < 3:
            check_grads(lambda ys, f=f, others=others: f(ys, others), (xs,), 2, atol=2e-4, rtol=2e-4, eps=1e-5)
        check_both_modes(f, xs, others, 2, str(call))


Derived = Callable[[list[Any], Any], list[Any]]


def of_floats(call: Call) -> tuple[Derived, list[Any], list[Any]]:
    """f(floats, others): the floating results of a call by its floating operands; these operands."""
    at = [x.dtype.kind in "fc" for x in call.operands]

    def f(floats: list[Any], others: Any) -> list[Any]:
        moving, fixed = iter(floats), iter(others)
        found = call(*[next(moving if is_float else fixed) for is_float in at])
        return [out for out in found if hasattr(out, "dtype") and out.dtype.kind in "fc"]

    floats, others = ([x for x, a in zip(call.operands, at, strict=True) if a is wanted] for wanted in (True, False))
    return f, floats, others


def check_both_modes(f: Derived, xs: list[Any], others: Any, order: int, name: str) -> None:
    """As `check_grads`, by the reference evaluator: f(xs, others) has the derivatives by xs that differences have."""
    rng, eps = np.random.default_rng(order), 1e-5

    def noise(like: Sequence[Any]) -> list[Any]:
        made = [rng.standard_normal(np.shape(x)) for x in like]
        return [v + 1j * v[::-1] if x.dtype.kind == "c" and v.ndim else v for v, x in zip(made, like, strict=True)]

    v = noise(xs)
    plus, minus = (interpreted(f)([x + s * eps * d for x, d in zip(xs, v, strict=True)], others) for s in (1, -1))
    moved = [(p - m) / (2 * eps) for p, m in zip(plus, minus, strict=True)]
    cts = [c.astype(p.dtype) for c, p in zip(noise(plus), plus, strict=True)]

    def forward(ys: list[Any], rest: Any) -> list[Any]:
        return list(fgrad.jvp(lambda *y: f(list(y), rest[0]), tuple(ys), tuple(rest[1]))[1])

    def reverse(ys: list[Any], rest: Any) -> list[Any]:
        return list(fgrad.vjp(lambda *y: f(list(y), rest[0]), *ys)[1](list(rest[1])))

    v = [d.astype(x.dtype) for d, x in zip(v, xs, strict=True)]
    for got, want in zip(interpreted(forward)(xs, (others, v)), moved, strict=True):
        size = float(np.max(np.abs(want), initial=1))
        np.testing.assert_allclose(got, want, 2e-4, 2e-4 * size, err_msg=f"jvp, {name}")
    left, right = (
        sum(float(np.real(np.sum(a * b))) for a, b in zip(*pair, strict=True))
        for pair in ((cts, moved), (interpreted(reverse)(xs, (others, cts)), v))
    )
    size = 1 + sum(float(np.sum(np.abs(c * m))) for c, m in zip(cts, moved, strict=True))
    np.testing.assert_allclose(right, left, 2e-4, 2e-4 * size, err_msg=f"vjp, {name}")
    if order > 1:
        check_both_modes(forward, xs, (others, v), order - 1, f"jvp of {name}")
        check_both_modes(reverse, xs, (others, cts), order - 1, f"vjp of {name}")
