"""Which random keys a program uses up, and where one is used that has been before, under FGRAD_CHECK=keys.

A function that draws numbers marks the words of its key: AFTER(words, a CONST of this use alone). Marks go through
every transformation like any other node, so that what counts is what runs: what is computed twice for a derivative
has one mark. `flow` follows keys through a program. It knows them by identity: a key is a `Cell`, views of an array of
keys have its cells, and whatever is computed has cells of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fgrad.errors import KeyReuseError, user_frame
from fgrad.trace.buffers import inside
from fgrad.trace.reference import box_slices, evaluate
from fgrad.trace.stage import stages
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.cache import remember
from fgrad.uop.node import UOp, toposort, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Cond, Program, While

Cells = Any  # a NumPy array of Cell objects, in the shape of the words


@dataclass(frozen=True, eq=False, slots=True)
class Use:
    """One call in the user's code that takes a key.

    what      the function, in words
    line      where it was called, as it was traced
    branches  the branches around it: (which cond, which branch, how many loops stand around the cond)
    """

    what: str
    line: str
    branches: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program. `line` is where it was called; `is_library` says that no line in it is the user's."""

    number: int
    line: str = ""
    is_library: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Moment:
    """A use in a run; `steps` are the numbers of the steps of the loops around it."""

    use: Use
    run: Run
    steps: tuple[int, ...]

    def told(self, with_call: bool) -> str:
        """The use in words, with the line that called the program where that is asked for."""
        if self.run.is_library or not self.use.line:
            return f"{self.use.what} ({self.run.line})"
        called = f", called at {self.run.line}" if with_call and self.run.line else ""
        return f"{self.use.what} ({self.use.line}{called})"


class Cell:
    """A word of a key. `uses` are those so far; `is_held`: an array that the user may hold has it."""

    __slots__ = ("is_held", "uses")

    def __init__(self, uses: Sequence[Moment] = ()) -> None:
        self.uses = list(uses)
        self.is_held = False


def fresh(shape: tuple[int, ...]) -> Cells:
    """Cells that nobody has used."""
    cells = np.empty(shape, object)
    cells.reshape(-1)[:] = [Cell() for _ in range(cells.size)]
    return cells


# ---- marks
_numbers = count(1)
_marks: WeakKeyDictionary[UOp, Use | None] = WeakKeyDictionary()  # None: a key made anew


def _mark(words: UOp, use: Use | None, around: Sequence[UOp] = ()) -> UOp:
    label = build.const(next(_numbers), dt.int64)
    while label in _marks:  # a number that the user's program has as well is none of ours
        label = build.const(next(_numbers), dt.int64)
    _marks[label] = use
    return uop(Op.AFTER, (words, label, *around))


def used(words: UOp, what: str) -> UOp:
    """`words`, marked as the key that a call of `what` takes.

    The mark waits for the loops around it, so that nobody moves it out of them.
    """
    branches, around, loops = [], [], 0
    for stage in stages():
        if stage.branch is not None:
            branches.append((*stage.branch, loops))
        if stage.repeats:
            loops += 1
            around += stage.params[:1]
    return _mark(words, Use(what, user_frame(), tuple(branches)), around)


def renewed(words: UOp) -> UOp:
    """`words` as a key that has not been used."""
    return _mark(words, None)


def _label(u: UOp) -> UOp | None:
    """The mark of an AFTER."""
    return next((s for s in u.src[1:] if s in _marks), None) if u.op is Op.AFTER else None


# ---- what of a program matters
_VIEWS = (Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.SHRINK, Op.FLIP, Op.GATHER, Op.AFTER, Op.COPY, Op.GET)
_RUNS = (Op.CALL, Op.SCAN, Op.WHILE, Op.COND)


def may_be_keys(u: UOp) -> bool:
    """Whether a node can hold keys."""
    return u.dtype is dt.uint32 and u.ndim > 0


def _below(u: UOp) -> Sequence[UOp]:
    """The sources whose cells node `u` hands on."""
    if u.op in _VIEWS:
        return u.src[:1]
    if u.op is Op.UPDATE and _is_placement(u):
        return u.src[:2]
    if u.op in _RUNS or u.op is Op.TUPLE:
        return [s for s in u.src if may_be_keys(s)]
    return ()


def _is_placement(u: UOp) -> bool:
    arg = u.arg
    return arg.mode is Mode.SET and arg.box is not None and not arg.gated and all(b[0] is not None for b in arg.box)


@remember(512)
def _has_marks(program: Program) -> bool:
    return any(_label(u) or (u.op in _RUNS and any(map(_has_marks, inside(u)))) for u in program.nodes)


@remember(512)
def parts(program: Program) -> tuple[UOp, ...]:
    """The nodes of `program` that keys go through or are used by, sources first."""
    nodes = program.nodes
    wanted = {o for o in program.outs if may_be_keys(o)}
    for u in reversed(nodes):
        if u in wanted or _label(u) or (u.op in _RUNS and any(map(_has_marks, inside(u)))):
            wanted.add(u)
            wanted.update(_below(u))
    return tuple([u for u in nodes if u in wanted])


@remember(512)
def numbers_of(program: Program) -> tuple[int, ...]:
    """The parameters that say which keys of an array are taken."""
    starts = [s for u in parts(program) if u.op in (Op.SHRINK, Op.GATHER) for s in u.src[1:]]
    below = set(toposort(starts))
    return tuple([i for i, p in enumerate(program.params) if p in below and p.size <= _MOST_INDICES])


_MOST_INDICES = 1 << 16


@remember(512)
def without_marks(program: Program) -> Program:
    """The program to compile: the same for all calls that differ in their marks only."""
    if not _has_marks(program):
        return program
    new: dict[UOp, UOp] = {}
    for u in program.nodes:
        src = tuple([new[s] for s in u.src])
        if _label(u):
            new[u] = src[0]
        elif u.op in _RUNS and any(map(_has_marks, inside(u))):
            new[u] = uop(u.op, src, _unmarked_call(u.arg))
        else:
            new[u] = u if src == u.src else uop(u.op, src, u.arg)
    return replace(program, outs=tuple([new[o] for o in program.outs]))


def _unmarked_call(arg: Any) -> Any:
    if isinstance(arg, Cond):
        return Cond(tuple([without_marks(b) for b in arg.branches]))
    if isinstance(arg, While):
        return replace(arg, cond=without_marks(arg.cond), body=without_marks(arg.body))
    return replace(arg, body=without_marks(arg.body))


# ---- following keys
def flow(
    program: Program, args: Sequence[Cells | None], run: Run, numbers: Mapping[UOp, Any] | None = None
) -> list[Cells | None]:
    """The cells of the results of `program`, whose parameters have the cells `args` (None: new ones).

    numbers   values of parameters that are indices, where they are known

    Raises KeyReuseError where a key is used that has been used before; then nothing has been used by this run.
    """
    going = _Flow(run)
    try:
        return going.follow(program, args, (), numbers)
    except KeyReuseError:
        for cell in reversed(going.taken):
            cell.uses.pop()
        raise


class _Flow:
    """What goes on in one run: `log` has its uses in order, `taken` the cells they were of."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.log: list[Moment] = []
        self.taken: list[Cell] = []

    def follow(
        self,
        program: Program,
        args: Sequence[Cells | None],
        steps: tuple[int, ...],
        numbers: Mapping[UOp, Any] | None = None,
    ) -> list[Cells | None]:
        """The cells of the results; `steps` as in Moment."""
        numbers = numbers or {}
        at: dict[UOp, Any] = {p: a for p, a in zip(program.params, args, strict=True) if a is not None}
        for u in parts(program):
            if u in at:
                continue
            if u.op in _RUNS:
                at[u] = _RULES[u.op](self, u, [at.get(s) for s in u.src], steps)
            elif u.op is Op.TUPLE:
                at[u] = [at.get(s) for s in u.src]
            elif u.op is Op.GET:
                members = at.get(u.src[0])
                at[u] = fresh(u.shape) if members is None or members[u.arg] is None else members[u.arg]
            elif u.op is Op.UPDATE and _is_placement(u):
                at[u] = at[u.src[0]].copy()
                at[u][box_slices(u.shape, u.arg.box, ())] = at[u.src[1]]
            elif u.op in _VIEWS:
                at[u] = self._seen(u, at[u.src[0]], steps, numbers)
            else:
                at[u] = fresh(u.shape)
        return [at.get(o) for o in program.outs]

    def _seen(self, u: UOp, cells: Cells, steps: tuple[int, ...], numbers: Mapping[UOp, Any]) -> Cells:
        """The cells of a view, or of a marked key."""
        match u.op:
            case Op.RESHAPE:
                return cells.reshape(u.shape)
            case Op.PERMUTE:
                return cells.transpose(u.arg)
            case Op.FLIP:
                return np.flip(cells, u.arg)
            case Op.EXPAND:
                return np.broadcast_to(np.expand_dims(cells, tuple([axis for axis, _ in u.arg])), u.shape)
            case Op.SHRINK:
                starts = _known(u.src[1:], numbers)
                return fresh(u.shape) if starts is None else cells[box_slices(cells.shape, u.arg, starts)]
            case Op.GATHER:
                return _gathered(u, cells, _known(u.src[1:], numbers))
        label = _label(u)
        if label is None:
            return cells
        use = _marks[label]
        if use is None:
            return fresh(u.shape)
        moment = Moment(use, self.run, steps)
        self.log.append(moment)
        for cell in dict.fromkeys(cells[..., 0].flat):  # the first word stands for its key
            self.take(cell, moment)
        return cells

    def take(self, cell: Cell, moment: Moment) -> None:
        """Note a use. Raises KeyReuseError if there was one that can have happened too."""
        for earlier in cell.uses:
            if _are_two(earlier, moment):
                raise KeyReuseError(_text(earlier, moment))
        cell.uses.append(moment)
        self.taken.append(cell)

    # ---- calls
    def call(self, u: UOp, args: list[Cells | None], steps: tuple[int, ...]) -> list[Cells | None]:
        return self.follow(u.arg.body, args, steps)

    def scan(self, u: UOp, args: list[Cells | None], steps: tuple[int, ...]) -> list[Cells | None]:
        """The first steps; the others do what the last of these does."""
        s = u.arg
        first = s.consts + s.carry
        consts, carry, xs = args[: s.consts], args[s.consts : first], args[first:]
        rows = []
        own = self.log
        for t in range(min(s.length, _turns(carry))):
            own, self.log, before = [], [], self.log
            outs = self.follow(s.body, [*consts, *carry, *[None if x is None else x[t] for x in xs]], (*steps, t))
            carry = outs[: s.carry]
            rows.append(outs[s.carry :])
            self.log, own = before + self.log, self.log
        for x in xs:
            if x is not None and len(rows) < s.length:
                self._repeat(x, len(rows), set(own), len(steps))
        ys = [_stacked(each, s.length) for each in zip(*rows, strict=True)] or [None] * (len(u.shape) - s.carry)
        return [*carry, *ys]

    def _repeat(self, x: Cells, begin: int, moments: set[Moment], depth: int) -> None:
        """Let the cells of row `begin` and further ones have the uses that those of the row before got."""
        for place in np.ndindex(x.shape[1:]):
            for m in [m for m in x[begin - 1][place].uses if m in moments]:
                for t in range(begin, len(x)):
                    self.take(x[t][place], Moment(m.use, m.run, (*m.steps[:depth], t, *m.steps[depth + 1 :])))

    def loop(self, u: UOp, args: list[Cells | None], steps: tuple[int, ...]) -> list[Cells | None]:
        """The first steps, and the last look at the condition."""
        consts, carry = args[: u.arg.consts], args[u.arg.consts :]
        turns = _turns(carry)
        for t in range(turns):
            self.follow(u.arg.cond, [*consts, *carry], (*steps, t))
            carry = self.follow(u.arg.body, [*consts, *carry], (*steps, t))
        self.follow(u.arg.cond, [*consts, *carry], (*steps, turns))
        return carry

    def cond(self, u: UOp, args: list[Cells | None], steps: tuple[int, ...]) -> list[Cells | None]:
        """Every branch; what they return may be either's."""
        results, logs = [], []
        before = self.log
        for branch in u.arg.branches:
            self.log = []
            results.append(self.follow(branch, args[1:], steps))
            logs.append(self.log)
        self.log = before + [m for log in logs for m in log]
        elsewhere = [{m for k, log in enumerate(logs) if k != i for m in log} for i in range(len(logs))]
        return [_either(each, elsewhere) for each in zip(*results, strict=True)]


_RULES = {Op.CALL: _Flow.call, Op.SCAN: _Flow.scan, Op.WHILE: _Flow.loop, Op.COND: _Flow.cond}


def _gathered(u: UOp, cells: Cells, index: Sequence[Any] | None) -> Cells:
    """The cells that GATHER takes."""
    out = fresh(u.shape)
    if index is not None and u.arg == 0:
        is_inside = (index[0] >= 0) & (index[0] < len(cells))
        out[is_inside] = cells[index[0][is_inside]]
    return out


def _known(indices: Sequence[UOp], numbers: Mapping[UOp, Any]) -> list[Any] | None:
    """The values of indices, or None."""
    below = toposort(indices)
    if any(q.op in (Op.PARAM, Op.BUFFER, Op.HOST, *_RUNS) and q not in numbers for q in below):
        return None
    return evaluate(indices, {q: numbers[q] for q in below if q in numbers})


def _turns(carry: Sequence[Cells | None]) -> int:
    """How many steps of a loop show all there is to see: keys in its carry may change places."""
    return min(2 + max(sum(c is not None for c in carry) - 1, 0), _MOST_TURNS)


_MOST_TURNS = 6  # loops in loops multiply them


def _stacked(rows: Sequence[Cells | None], length: int) -> Cells | None:
    """The rows that are there, then others like the last of them."""
    if rows[0] is None or rows[-1] is None:
        return None
    out: Cells = np.empty((length, *rows[0].shape), object)
    for t, row in enumerate(rows):
        out[t] = row
    for t in range(len(rows), length):
        for place in np.ndindex(rows[-1].shape):
            out[(t, *place)] = Cell(rows[-1][place].uses)
    return out


def _either(each: Sequence[Cells | None], elsewhere: Sequence[set[Moment]]) -> Cells | None:
    """The cells of a result that one of several branches gives; uses in other branches do not count."""
    found = [c for c in each if c is not None]
    if len(found) < len(each):
        return None
    out: Cells = np.empty(found[0].shape, object)
    for place in np.ndindex(out.shape):
        cells = [c[place] for c in found]
        if all(c is cells[0] for c in cells):
            out[place] = cells[0]
        else:
            pairs = zip(cells, elsewhere, strict=True)
            out[place] = Cell(list(dict.fromkeys([m for c, others in pairs for m in c.uses if m not in others])))
    return out


def _are_two(a: Moment, b: Moment) -> bool:
    """Whether two uses of one key can both happen, and are not one that is computed twice."""
    if a.run.number != b.run.number:
        return True
    if a.use is b.use:
        return len(a.steps) == len(b.steps) and a.steps != b.steps
    for cond, branch, loops in a.use.branches:
        for other_cond, other, _ in b.use.branches:
            if cond == other_cond and branch != other and a.steps[:loops] == b.steps[:loops]:
                return False
    return True


def _text(earlier: Moment, now: Moment) -> str:
    is_one_run = earlier.run is now.run
    this, that = now.told(not is_one_run), earlier.told(not is_one_run)
    if earlier.use is now.use and is_one_run:
        return (
            f"{this} takes the same key in every step of a loop, which gives the same numbers in each; split the key "
            "in each step and carry one part of it, key, sub = random.split(key), or loop over the keys of "
            "random.split(key, n)"
        )
    return (
        f"{this} takes a key that {that} has taken before, and numbers of one key are not independent; take a new "
        "key for each, key, sub = random.split(key), or say with random.clone(key) that it is meant"
    )


__all__ = [
    "Cell", "Cells", "Run", "flow", "fresh", "may_be_keys", "numbers_of", "parts", "renewed", "used", "without_marks",
]  # fmt: skip
