"""Programs of reads and writes of two Refs, under every transformation, and as NumPy statements: the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import fgrad
import fgrad.numpy as fnp
from fgrad import lax

SHAPE = (3, 3)
INDICES: list[Any] = [
    ...,
    (slice(0, 2), slice(1, 3)),
    1,
    (slice(None), 2),
    (slice(None, None, -1),),
    np.array([0, 2, 0]),
    (slice(None, None, 2), slice(None, None, -2)),
    (np.array([0, 1, 0]), np.array([2, 2, 2])),
    -1,
]
KINDS = ("set", "add", "update", "mask", "swap", "at_set", "at_add", "at_max", "cond", "loop", "call")
SOURCES = ("const", "own", "other", "snapshot", "product")


class Statement(NamedTuple):
    """One write: `kind` of it, to which Ref, where, of what, with a number in it."""

    kind: str
    ref: int
    index: int
    source: str
    number: int


class NumPyRef:
    """An array of NumPy with the face of a Ref: reads are snapshots."""

    def __init__(self, x: Any) -> None:
        self.x = np.array(x)
        self.dtype, self.shape = self.x.dtype, self.x.shape

    def __getitem__(self, index: Any) -> Any:
        return np.array(self.x[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.x[index] = value

    def addupdate(self, index: Any, value: Any) -> None:
        np.add.at(self.x, index, value)

    def swap(self, index: Any, value: Any) -> Any:
        old = self[index]
        self[index] = value
        return old

    def row(self, i: int) -> NumPyRef:
        """A Ref of the memory of one row."""
        row = NumPyRef(self.x[i])
        row.x = self.x[i : i + 1].reshape(row.shape)
        return row


class World(NamedTuple):
    """How statements are carried out."""

    new_ref: Callable[[Any], Any]
    where: Callable[..., Any]
    changed: Callable[[str, Any, Any, Any], Any]  # x.at[index].set/add/max(value)
    cond: Callable[[Any, Callable[[], None], Callable[[], None]], None]
    loop: Callable[[int, Callable[[], None]], None]
    call: Callable[[Callable[..., Any], Sequence[Any]], Any]


def _numpy_changed(how: str, x: Any, index: Any, value: Any) -> Any:
    out = np.array(x)
    ufunc = {"at_add": np.add, "at_max": np.maximum}.get(how)
    if ufunc is None:
        out[index] = value
    else:
        ufunc.at(out, index, value)
    return out


def _fgrad_changed(how: str, x: Any, index: Any, value: Any) -> Any:
    at = x.at[index]
    return {"at_set": at.set, "at_add": at.add, "at_max": at.max}[how](value)


def _either(p: Any, yes: Callable[[], None], no: Callable[[], None]) -> None:
    yes() if p else no()


def _repeat(n: int, f: Callable[[], None]) -> None:
    for _ in range(n):
        f()


def _nothing(f: Callable[[], None]) -> Callable[..., None]:
    def run(*_: Any) -> None:
        f()

    return run


NUMPY = World(NumPyRef, np.where, _numpy_changed, _either, _repeat, lambda f, args: f(*args))
FGRAD = World(
    fgrad.new_ref,
    fnp.where,
    _fgrad_changed,
    lambda p, yes, no: lax.cond(p, _nothing(yes), _nothing(no)),
    lambda n, f: lax.fori_loop(0, n, _nothing(f), None),
    lambda f, args: fgrad.jit(f)(*args),
)


def run(program: Sequence[Statement], refs: Sequence[Any], world: World) -> list[Any]:
    """Carry out the statements on two Refs -> what each of them saw before it wrote."""
    seen = []
    for s in program:
        seen.append(refs[s.ref][INDICES[s.index]])
        _write(s, refs, world, seen)
    return seen


def _value(s: Statement, refs: Sequence[Any], seen: Sequence[Any]) -> Any:
    index = INDICES[s.index]
    here = refs[s.ref][index]
    if s.source == "const":
        return here * 0 + s.number
    if s.source == "own":
        return here * 0.5 + s.number
    if s.source == "other":
        return refs[1 - s.ref][index] * s.number
    if s.source == "product":
        return here * refs[1 - s.ref][index] * 0.25
    return here * 0 + seen[0].sum() * 0.125 - s.number


def _write(s: Statement, refs: Sequence[Any], world: World, seen: Sequence[Any]) -> None:
    ref, index = refs[s.ref], INDICES[s.index]

    def store() -> None:
        ref[index] = _value(s, refs, seen)

    match s.kind:
        case "set":
            store()
        case "add":
            ref[index] = ref[index] + _value(s, refs, seen)
        case "update":
            ref.addupdate(index, _value(s, refs, seen))
        case "mask":
            ref[...] = world.where(ref[...] < s.number, ref[...] * 0.5, ref[...])
            store()
        case "swap":
            a, b = refs[0][...], refs[1][...]
            refs[0][...], refs[1][...] = b, a
            store()
        case "cond":
            world.cond(ref[...].sum() < s.number, store, lambda: ref.addupdate(index, 1.0))
        case "loop":
            world.loop(2, store)
        case "call":

            def inner(r: Any, q: Any) -> Any:
                r[index] = r[index] * 0.5 + q[index]
                return r[...].sum()

            total = world.call(inner, (ref, refs[1 - s.ref]))
            ref[0] = total * 0.125
        case _:
            ref[...] = world.changed(s.kind, ref[...], index, _value(s, refs, seen))


# ---- programs as functions of the initial contents
def outcome(program: Sequence[Statement], xs: Sequence[Any], world: World) -> list[Any]:
    """The final contents of the Refs, then what the statements saw."""
    refs = [world.new_ref(x) for x in xs]
    seen = run(program, refs, world)
    return [r[...] for r in refs] + seen


def repeated(program: Sequence[Statement], xs: Sequence[Any], world: World, steps: int = 2) -> list[Any]:
    """The program as the body of a loop; what was seen is stacked."""
    refs = [world.new_ref(x) for x in xs]
    if world is NUMPY:
        rows = [run(program, refs, world) for _ in range(steps)]
        stacked = [np.stack(column) for column in zip(*rows, strict=True)]
    else:
        _, stacked = lax.scan(lambda c, _: (c, run(program, refs, world)), None, None, length=steps)
    return [r[...] for r in refs] + list(stacked)


def near(got: Sequence[Any], want: Sequence[Any], what: str, tol: float = 1e-9) -> None:
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=tol, atol=tol, err_msg=what)


def initial(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(SHAPE) for _ in range(2)]


def check(program: Sequence[Statement], seed: int) -> None:
    """Eager, jit, jit of Refs as arguments, scan, vmap and gradients against the model."""
    xs = initial(seed)
    want = outcome(program, xs, NUMPY)
    near(outcome(program, xs, FGRAD), want, "eager")
    near(fgrad.jit(lambda *a: outcome(program, a, FGRAD))(*xs), want, "jit")
    refs = [fgrad.new_ref(x) for x in xs]
    seen = fgrad.jit(lambda r, q: run(program, [r, q], FGRAD))(*refs)
    near([r[...] for r in refs] + list(seen), want, "jit of Refs")
    near(fgrad.jit(lambda *a: repeated(program, a, FGRAD))(*xs), repeated(program, xs, NUMPY), "scan")
    ys = initial(seed + 1)
    mapped = fgrad.vmap(lambda *a: outcome(program, a, FGRAD))(*map(np.stack, zip(xs, ys, strict=True)))
    both = zip(want, outcome(program, ys, NUMPY), strict=True)
    near(mapped, [np.stack(pair) for pair in both], "vmap")
    check_gradient(program, xs)


def check_gradient(program: Sequence[Statement], xs: Sequence[Any]) -> None:
    def loss(world: World, sin: Any, *a: Any) -> Any:
        return sum(sin(v).sum() for v in outcome(program, a, world))

    gradients = fgrad.jit(fgrad.grad(lambda *a: loss(FGRAD, fnp.sin, *a), argnums=(0, 1)))(*xs)
    v = initial(99)
    eps = 1e-6
    at = [
        loss(NUMPY, np.sin, *[x + t * d for x, d in zip(xs, v, strict=True)]) for t in (eps, 0.0, -eps)
    ]
    ahead, behind = (at[0] - at[1]) / eps, (at[1] - at[2]) / eps
    if abs(ahead - behind) > 1e-2 * (1 + abs(ahead)):
        return  # a kink: a comparison changes its mind here
    got = sum(float((np.asarray(g) * d).sum()) for g, d in zip(gradients, v, strict=True))
    np.testing.assert_allclose(got, (at[0] - at[2]) / (2 * eps), rtol=1e-4, atol=1e-4, err_msg="grad")
