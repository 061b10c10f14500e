"""What happens once in a process: import, compilation, memory. Each sample is a new process.

``python -m benchmarks.startup CASE LIBRARY`` runs one case and prints its number.
"""

import importlib
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import updates
from benchmarks.learning import MLP, MLP_BATCH, mlp_step, transformer_step
from benchmarks.measure import Times
from benchmarks.work import Library, numbers


@dataclass(frozen=True, slots=True)
class Case:
    """A number measured in a process of its own.

    target   ours over the best peer's that we aim at
    measure  returns the number: seconds, or bytes
    unit     "s" or "B"
    second   measure in a second process that finds the first one's compiled code on disk; the
             peer is then our own first process
    """

    name: str
    target: float
    measure: Callable[[str], float]
    unit: str = "s"
    second: bool = False


def time_import(name: str) -> float:
    begin = time.perf_counter()
    importlib.import_module(f"{name}.numpy")
    return time.perf_counter() - begin


def first_call(make: Callable[[Library], tuple[Callable[..., Any], tuple[Any, ...]]]):
    """Seconds from the first call to its result, in a process that has compiled before.

    What is compiled once per machine (our micro-kernels) is there: a program with the same contractions came first.
    """

    def measure(name: str) -> float:
        lib = Library(name)
        lib.wait(lib.jit(lambda x: x * 3)(lib.array(numbers(5))))
        f, args = make(lib)
        lib.wait(args)
        lib.wait(lib.jit(lambda *a: lib.tree_util.tree_map(lambda y: y * 3, f(*a)))(*args))
        time.sleep(1.0)  # what is done behind the first call is over
        begin = time.perf_counter()
        lib.wait(lib.jit(f)(*args))
        return time.perf_counter() - begin

    return measure


def add_constant(lib: Library) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return (lambda x: x + 1.5), (lib.array(numbers(8)),)


def mlp(lib: Library) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return mlp_step(lib, MLP, MLP_BATCH)


def long_chain(lib: Library) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def f(x):
        for _ in range(500):
            x = lib.np.sin(x) * 0.9 + 0.1
        return x

    return f, (lib.array(numbers(64)),)


def peak_rss() -> float:
    """The most bytes that this process has held.

    On Linux from /proc: there getrusage also counts the parent, as it was when it started us.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (peak,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status.read_text(), re.MULTILINE)
        return float(peak) * 1024
    peak_now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak_now) * (1 if sys.platform == "darwin" else 1024)


def peak_memory(name: str) -> float:
    """Bytes that compiling and a hundred training steps added to what the process held before."""
    lib = Library(name)
    step, (params, x, y) = mlp(lib)
    lib.wait(params)
    before = peak_rss()
    compiled = lib.jit(step)
    for _ in range(100):
        params = compiled(params, x, y)
    lib.wait(params)
    return peak_rss() - before


def memory_of_updates(name: str) -> float:
    """Bytes that updates of an array of 64 MiB, in a loop and by calls, added to what the process held before."""
    lib = Library(name)
    runs = [updates.in_a_loop(lib), updates.by_calls(lib)]
    lib.wait(lib.jit(lambda x: x * 3)(lib.array(numbers(5))))
    before = peak_rss()
    for run in runs:
        for _ in range(3):
            lib.wait(run())
    return peak_rss() - before


CASES = (
    Case("compile x+c", 0.15, first_call(add_constant)),
    Case("compile MLP step", 0.2, first_call(mlp)),
    Case("compile transformer step", 0.2, first_call(transformer_step)),
    Case("compile chain of 1500 ops", 0.35, first_call(long_chain)),
    Case("second process, code on disk", 0.1, first_call(transformer_step), second=True),
    Case("import", 0.35, time_import),
    Case("peak memory of a train step", 1.0, peak_memory, unit="B"),
    Case("peak memory of updates of 2 x 64 MiB", 1.0, memory_of_updates, unit="B"),
)


def in_new_process(case: Case, library: str, cache_dir: str) -> float:
    """Run one case in a new interpreter. `cache_dir` is fgrad's; "" keeps nothing on disk."""
    environment = {**os.environ, "FGRAD_CACHE_DIR": cache_dir}
    command = [sys.executable, "-m", "benchmarks.startup", case.name, library]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{case.name} with {library} failed:\n{done.stderr}")
    return float(done.stdout)


def compare(case: Case, ours: str, peers: Sequence[str], rounds: int = 3) -> dict[str, Times]:
    """Measure a case for us and the peers with JAX's layout, in turn; in `case.unit`."""
    names = [ours, "first process"] if case.second else [ours, *(p for p in peers if p == "jax")]
    samples: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            cache_dir = folder if case.second else ""
            for name in reversed(names):  # the first process comes before the second
                library = ours if name == "first process" else name
                samples[name].append(in_new_process(case, library, cache_dir))
    return {name: Times(median(values), min(values)) for name, values in samples.items()}


def main() -> None:
    """Measure the case and library named on the command line, and print the number."""
    name, library = sys.argv[1:]
    (case,) = (case for case in CASES if case.name == name)
    print(case.measure(library))


if __name__ == "__main__":
    main()
