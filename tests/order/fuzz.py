"""Random programs against NumPy for as long as one likes: python -m tests.order.fuzz 100000 --jobs 2

Seed s draws the same program everywhere. Seeds are worked through in chunks, each in a process of its own under one
of the `MODES`, several programs compiled together. A run goes on where another ended with --seed. What differs is
made smaller and printed as a program to type in.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any, NamedTuple

CHUNK = 1000  # seeds in one process
PACK = 8  # programs compiled as one
SHRINK_SECONDS = 60.0


class Mode(NamedTuple):
    """Settings beside those that all modes share; whether kernels are cut into tasks however little they do, so that
    threads meet in the smallest program; whether every program is queued instead of run in the caller's thread."""

    settings: dict[str, str]
    is_split: bool = False
    is_queued: bool = False


MODES = {
    "cpu-1": Mode({"THREADS": "1"}),
    "cpu-2": Mode({"THREADS": "2"}, is_split=True),
    "python": Mode({"DEVICE": "PYTHON"}),
    "cpu-1-poison": Mode({"THREADS": "1", "POISON": "1"}),
    "cpu-2-unplanned": Mode({"THREADS": "2", "PLANNER": "0"}, is_split=True),
    "cpu-2-queued-poison": Mode({"THREADS": "2", "POISON": "1"}, is_split=True, is_queued=True),
    "cpu-2-optimised": Mode({"THREADS": "2", "OPT": "2"}, is_split=True),
    "cpu-1-unplanned-poison": Mode({"THREADS": "1", "PLANNER": "0", "POISON": "1"}),
    "cpu-2-poison-checked": Mode({"THREADS": "2", "POISON": "1", "CHECK": "order"}, is_split=True),
    "python-unplanned": Mode({"DEVICE": "PYTHON", "PLANNER": "0"}),
}
ALL_MODES = {"CACHE_DIR": "", "OPT": "0", "CHECK": "", "DEVICE": "CPU"}


def environment(mode: str) -> dict[str, str]:
    """The settings of a mode, as environment variables."""
    return {f"FGRAD_{name}": value for name, value in (ALL_MODES | MODES[mode].settings).items()}


def prepare(mode: str) -> None:
    """What a mode asks of this process beside its environment."""
    from fgrad.backends.cpu import executable
    from fgrad.lower import contract_build, cost

    if MODES[mode].is_split:
        cost.TASK_NS = contract_build.TASK_NS = 0.1  # type: ignore[assignment]
    if MODES[mode].is_queued:
        executable.QUEUED_WORK_NS = 0.0


def family(name: str) -> ModuleType:
    """The module that draws, checks and shrinks one sort of programs."""
    from tests.order import graphs, programs

    return {"graphs": graphs, "programs": programs}[name]


def family_of(seed: int) -> str:
    """The sort of the program of a seed; neighbours that are compiled together are of one sort."""
    return "programs" if seed // PACK % 2 else "graphs"


# ---- one process
def work(mode: str, first: int, count: int, pack: int) -> int:
    """Check the seeds; what differs is shrunk and printed. -> how many differ."""
    import gc

    from fgrad.run.caches import clear_caches

    prepare(mode)
    gc.freeze()
    gc.disable()  # nodes form no cycles; collecting after each pack is enough
    failures = 0
    for number, start in enumerate(range(first, first + count, pack)):
        seeds = range(start, min(start + pack, first + count))
        for name in dict.fromkeys(map(family_of, seeds)):
            kind = family(name)
            drawn = [(kind.draw(random.Random(s)), s) for s in seeds if family_of(s) == name]
            for group, seen in differing(kind, drawn):
                failures += 1
                report(mode, name, kind, group, seen)
        if pack == 1:
            print(f"seed {start} done", flush=True)
        if number % 48 == 47:
            clear_caches()
            gc.collect()
    return failures


Drawn = tuple[Any, int]


def failure(kind: ModuleType, group: Sequence[Drawn]) -> list[str]:
    """What differs when the programs are run together; an unforeseen exception is a difference."""
    try:
        lines: list[str] = kind.check_together(group)
        return lines
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def differing(kind: ModuleType, group: Sequence[Drawn]) -> Iterator[tuple[list[Drawn], list[str]]]:
    """The programs that fail by themselves, or the smallest part found of those that fail only together, and what
    differed at first: it need not happen again.
    """
    seen = failure(kind, group)
    if not seen:
        return
    alone = [x for x in group if failure(kind, [x])]
    if alone:
        yield from (([x], seen) for x in alone)
        rest = [x for x in group if x not in alone]
        if rest:
            yield from differing(kind, rest)
        return
    part = list(group)
    for x in group:
        fewer = [y for y in part if y is not x]
        if fewer and failure(kind, fewer):
            part = fewer
    yield part, seen


def report(mode: str, name: str, kind: ModuleType, group: list[Drawn], seen: list[str]) -> None:
    first = failure(kind, group) or ["not again; at first:", *seen]
    lines = [f"\n== mode {mode}, {name}, seeds {[s for _, s in group]}", *[line[:600] for line in first]]
    small = shrunk(kind, group)
    lines += ["-- smaller:", *[line[:600] for line in failure(kind, small)], "-- to run it:"]
    settings = " ".join(f"{k}={v}" for k, v in environment(mode).items())
    lines += [f"{settings} python - <<'E'", f"from tests.order import fuzz, {name}"]
    lines += [f"from tests.order.{name} import *", f"fuzz.prepare({mode!r})"]
    lines += [f"group = {small!r}", f"print(*{name}.check_together(group), sep='\\n')", "E", ""]
    print("\n".join(lines), flush=True)


def sort_of(lines: list[str]) -> str:
    """What kind of difference it is, roughly."""
    return lines[0].split()[0] if lines else ""


def shrunk(kind: ModuleType, group: list[Drawn]) -> list[Drawn]:
    """A smaller group that fails in the same way."""
    wanted = sort_of(failure(kind, group))
    end = time.monotonic() + SHRINK_SECONDS
    is_smaller = True
    while is_smaller and time.monotonic() < end:
        is_smaller = False
        for k, (program, seed) in enumerate(group):
            for variant in kind.variants(program):
                candidate = [*group[:k], (variant, seed), *group[k + 1 :]]
                if time.monotonic() < end and sort_of(failure(kind, candidate)) == wanted:
                    group, is_smaller = candidate, True
                    break
    return group


# ---- all of them
def chunks(first: int, count: int, mode: str | None) -> Iterator[tuple[str, int, int]]:
    """(mode, first seed, count), on the same borders whatever the range is."""
    names = list(MODES)
    at = first
    while at < first + count:
        number = at // CHUNK
        until = min((number + 1) * CHUNK, first + count)
        yield mode or names[number % len(names)], at, until - at
        at = until


def run_chunk(mode: str, first: int, count: int, pack: int) -> tuple[int, str]:
    """-> (how many differ, what the process printed)."""
    command = [sys.executable, "-m", "tests.order.fuzz", str(count), "--seed", str(first), "--mode", mode]
    command += ["--pack", str(pack), "--here"]
    done = subprocess.run(command, env=os.environ | environment(mode), capture_output=True, text=True, check=False)
    text = done.stdout + (done.stderr[-2000:] if done.returncode not in (0, 1) else "")
    if done.returncode in (0, 1):
        return text.count("\n== mode"), text
    if pack > 1:  # it died: once more, one by one, to see where
        return run_chunk(mode, first, count, 1)
    at = first + text.count("done\n")
    return 1, f"{text[-3000:]}\n== mode {mode}: the process ended with {done.returncode} at seed {at}\n"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.order.fuzz", description=__doc__)
    parser.add_argument("count", type=int, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--mode", choices=list(MODES), help="one mode instead of all in turn")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--pack", type=int, default=PACK, help="programs compiled together")
    parser.add_argument("--here", action="store_true", help="in this process, under its own settings")
    o = parser.parse_args(arguments)
    if o.here:
        return int(work(o.mode or "cpu-1", o.seed, o.count, o.pack) > 0)
    start = time.monotonic()
    done: dict[str, int] = {}
    failures = 0

    def one(chunk: tuple[str, int, int]) -> None:
        nonlocal failures
        differ, text = run_chunk(*chunk, o.pack)
        failures += differ
        if text.strip():
            print(text, flush=True)
        done[chunk[0]] = done.get(chunk[0], 0) + chunk[2]
        total = sum(done.values())
        rate = total / (time.monotonic() - start)
        print(f"{total} of {o.count} programs, {failures} differ, {rate:.1f} a second; "
              f"{chunk[0]}: seeds {chunk[1]} to {chunk[1] + chunk[2] - 1} done", flush=True)  # fmt: skip

    with ThreadPoolExecutor(o.jobs) as pool:
        list(pool.map(one, chunks(o.seed, o.count, o.mode)))
    for mode, count in done.items():
        print(f"{mode}: {count}")
    print(f"{sum(done.values())} programs, {failures} differ from NumPy")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
