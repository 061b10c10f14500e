"""What ran when: a timeline of programs, kernels and ranges of your own, as a file for Perfetto.

Open the file in https://ui.perfetto.dev or chrome://tracing. Kernels stand in it for functions that
are compiled under ``FGRAD_SHOW=kernels`` (or ``kernels:name``), programs always.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ContextDecorator, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from fgrad.hw.device import get_device, open_devices
from fgrad.hw.profile import Range

__all__ = ["annotate", "annotate_function", "start_trace", "stop_trace", "trace"]

_F = TypeVar("_F", bound=Callable[..., Any])
_HOST = 1  # the process number of Python's threads; devices follow


class _Trace:
    """The trace that is being taken: where it goes, and the ranges of `annotate` so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.start_ns = time.monotonic_ns()
        self.host: list[tuple[str, int, int, int]] = []  # name, thread, start, end
        self.devices = [d for d in open_devices() if hasattr(d, "start_profile")]
        for device in self.devices:
            device.start_profile()

    def finish(self) -> list[Range]:
        return [r for device in self.devices for r in device.stop_profile()]


_lock = threading.Lock()
_present: list[_Trace] = []


def start_trace(log_dir: str | os.PathLike[str]) -> None:
    """Note from now on what the open devices run and when; each call costs about 10 us more.

    log_dir   the folder that `stop_trace` writes to; it is made where it does not exist

    Raises RuntimeError when a trace is being taken already.
    """
    folder = Path(log_dir)
    folder.mkdir(parents=True, exist_ok=True)
    get_device()
    with _lock:
        if _present:
            raise RuntimeError(f"a trace into {_present[0].folder} is being taken; call stop_trace first")
        _present.append(_Trace(folder))


def stop_trace() -> Path:
    """Wait for the devices, and write the timeline; returns the path of the file.

    Raises RuntimeError when no trace was started.
    """
    with _lock:
        if not _present:
            raise RuntimeError("there is no trace to stop; call start_trace first")
        taken = _present.pop()
    ranges = taken.finish()
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = taken.folder / f"fgrad-{stamp}-{os.getpid()}-{taken.start_ns}.trace.json"
    events = _events(ranges, taken.host, taken.start_ns)
    path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}), encoding="utf-8")
    return path


@contextmanager
def trace(log_dir: str | os.PathLike[str]) -> Iterator[None]:
    """Take a trace of the block, also of one that raises.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with trace(folder):
    ...         x = jit(lambda x: x * 2)(fnp.ones(3))
    ...     len(os.listdir(folder))
    1
    """
    start_trace(log_dir)
    try:
        yield
    finally:
        stop_trace()


class annotate(ContextDecorator):
    """A range of the host, from the beginning to the end of a block or of a function's calls.

    Costs next to nothing while no trace is taken.

    >>> with annotate("load"):
    ...     pass
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._starts: list[int] = []

    def _recreate_cm(self) -> annotate:
        """Each call of a decorated function has a range of its own."""
        return annotate(self.name)

    def __enter__(self) -> annotate:
        self._starts.append(time.monotonic_ns())
        return self

    def __exit__(self, *error: object) -> None:
        start = self._starts.pop()
        for taken in tuple(_present):
            taken.host.append((self.name, threading.get_native_id(), start, time.monotonic_ns()))


def annotate_function(fun: _F, name: str | None = None) -> _F:
    """`fun` with a range around each call, under its own name or `name`."""
    ranged: _F = annotate(name or str(getattr(fun, "__name__", type(fun).__name__)))(fun)
    return ranged


def _events(
    ranges: Sequence[Range], host: Sequence[tuple[str, int, int, int]], start_ns: int
) -> list[dict[str, Any]]:
    """The events of the trace format: complete ones (X) in microseconds, and names (M)."""
    events: list[dict[str, Any]] = []

    def name(kind: str, text: str, process: int, thread: int = 0) -> None:
        events.append({"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": text}})

    def complete(text: str, kind: str, process: int, thread: int, start: int, end: int, **args: Any) -> None:
        events.append({
            "ph": "X", "name": text, "cat": kind, "pid": process, "tid": thread,
            "ts": (start - start_ns) / 1e3, "dur": (end - start) / 1e3, "args": args,
        })  # fmt: skip

    name("process_name", "Python", _HOST)
    for text, thread, start, end in host:
        complete(text, "annotation", _HOST, thread, start, end)
    lanes = ("called", "queued", "kernels")  # threads of a device
    for number, device in enumerate(sorted({r.device for r in ranges}), _HOST + 1):
        name("process_name", device, number)
        for thread, lane in enumerate(lanes):
            name("thread_name", lane, number, thread)
        for r in ranges:
            if r.device != device:
                continue
            if r.kernel_runs:
                complete(r.name, "kernel", number, 2, r.start_ns, r.end_ns, runs=r.kernel_runs)
            else:
                complete(r.name, "program", number, int(r.is_queued), r.start_ns, r.end_ns)
    return events
