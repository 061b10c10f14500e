"""Interleaved timing of several contestants, and the machine's own peaks."""

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.work import Run

Wait = Callable[[object], None]
MIN_SAMPLE_S = 2e-3  # shorter runs are repeated inside one sample: the clock and the wait cost too
MIN_ROUNDS = 5
PAUSE_S = 5e-3  # between samples: the workers of the library before spin for a while, on the cores of the next one


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of one run: the median and the smallest of all samples."""

    median_s: float
    min_s: float


def interleave(contestants: Mapping[str, tuple[Run, Wait]], seconds: float) -> dict[str, Times]:
    """Time all contestants in turn, for about `seconds` together and at least `MIN_ROUNDS` rounds.

    Each first runs until it is warm: a compilation, the memory it reuses later, a better compiled
    version that comes in behind. The order turns from round to round, so that nobody always
    follows the same neighbour.
    """
    repeats = {name: warm_up(run, wait) for name, (run, wait) in contestants.items()}
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    end = time.perf_counter() + seconds
    rounds = 0
    gc.collect()
    gc.disable()
    try:
        while rounds < MIN_ROUNDS or time.perf_counter() < end:
            for name in order:
                run, wait = contestants[name]
                time.sleep(PAUSE_S)
                samples[name].append(sample(run, wait, repeats[name]))
            order = order[1:] + order[:1]
            rounds += 1
    finally:
        gc.enable()
    return {name: Times(median(times), min(times)) for name, times in samples.items()}


def warm_up(run: Run, wait: Wait, seconds: float = 0.3) -> int:
    """Run for a while; return how many runs fill one sample."""
    wait(run())
    end = time.perf_counter() + seconds
    repeat = 1
    while True:
        taken = sample(run, wait, repeat) * repeat
        if taken < MIN_SAMPLE_S:
            repeat = max(repeat + 1, int(repeat * min(10.0, MIN_SAMPLE_S / max(taken, 1e-7))))
        elif time.perf_counter() > end:
            return repeat


def sample(run: Run, wait: Wait, repeat: int) -> float:
    """Seconds of one run, averaged over `repeat` runs that are waited for together."""
    begin = time.perf_counter()
    result: object = None
    for _ in range(repeat):
        result = run()
    wait(result)
    return (time.perf_counter() - begin) / repeat


def best_of(run: Run, tries: int = 5) -> float:
    """The smallest of a few times, in seconds."""
    return min(sample(run, lambda _: None, 1) for _ in range(tries))


def peak_flops() -> float:
    """Operations a second that NumPy's matrix product reaches here (float32, 1024)."""
    a = np.ones((1024, 1024), np.float32)
    out = np.empty_like(a)
    return 2 * 1024**3 / best_of(lambda: np.matmul(a, a, out=out))


def peak_bandwidth() -> float:
    """Bytes a second read and written by copying 64 MiB between warm buffers."""
    a = np.ones(16 << 20, np.float32)
    out = np.zeros_like(a)
    return 2 * a.nbytes / best_of(lambda: np.copyto(out, a))
