"""What ran when: a timeline of programs, kernels, copies, memory and ranges of your own, as a file for Perfetto.

Open the file in https://ui.perfetto.dev or chrome://tracing, or make a page of it with `save_html`, which needs
neither. On the CPU, kernels stand in it for functions that are compiled under ``FGRAD_SHOW=kernels`` (or
``kernels:name``), under the line of your source that they compute; programs and copies always.
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
from fgrad.hw.page import page
from fgrad.hw.profile import Kind, Profile
from fgrad.trace.frames import trim_public

__all__ = ["annotate", "annotate_function", "save_html", "start_trace", "stop_trace", "trace"]

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

    def finish(self) -> list[Profile]:
        taken = [device.stop_profile() for device in self.devices]
        return [profile for profile in taken if profile is not None]


_lock = threading.Lock()
_present: list[_Trace] = []


def start_trace(log_dir: str | os.PathLike[str]) -> None:
    """Note from now on what the open devices run and when; each call costs about 10 us more.

    log_dir   the folder that `stop_trace` writes to; it is made where it does not exist

    Raises RuntimeError when a trace is being taken already.

    >>> import tempfile
    >>> start_trace(tempfile.mkdtemp())
    >>> y = jit(lambda x: x + 1)(fnp.ones(3))
    >>> stop_trace().suffix
    '.json'
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

    >>> stop_trace()
    Traceback (most recent call last):
    RuntimeError: there is no trace to stop; call start_trace first
    """
    with _lock:
        if not _present:
            raise RuntimeError("there is no trace to stop; call start_trace first")
        taken = _present.pop()
    profiles = taken.finish()
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = taken.folder / f"fgrad-{stamp}-{os.getpid()}-{taken.start_ns}.trace.json"
    events = _events(profiles, taken.host, taken.start_ns)
    path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}), encoding="utf-8")
    return path


def save_html(trace_file: str | os.PathLike[str], html_file: str | os.PathLike[str] | None = None) -> Path:
    """Write a page that shows a trace in any browser, without network; returns its path.

    trace_file   what `stop_trace` returned
    html_file    None: beside it, with .html instead of .trace.json

    Raises FileNotFoundError, and ValueError for a file that is no trace.

    >>> import tempfile
    >>> start_trace(tempfile.mkdtemp())
    >>> y = fnp.ones(3) * 2
    >>> save_html(stop_trace()).suffix
    '.html'
    """
    source = Path(trace_file)
    found = json.loads(source.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or "traceEvents" not in found:
        raise ValueError(f"{source} is no trace: it has no traceEvents; take one with start_trace")
    name = source.name.removesuffix(".json").removesuffix(".trace")
    target = source.with_name(f"{name}.html") if html_file is None else Path(html_file)
    target.write_text(page(name, found["traceEvents"]), encoding="utf-8")
    return target


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
    """`fun` with a range around each call, under its own name or `name`.

    >>> annotate_function(lambda x: x + 1, name="load")(1)
    2
    """
    ranged: _F = annotate(name or str(getattr(fun, "__name__", type(fun).__name__)))(fun)
    return ranged


def _events(
    profiles: Sequence[Profile], host: Sequence[tuple[str, int, int, int]], start_ns: int
) -> list[dict[str, Any]]:
    """The events of the trace format: complete ones (X) in microseconds, counters (C), and names (M)."""
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
    ranges = sorted([r for profile in profiles for r in profile.ranges], key=lambda r: r.start_ns)
    levels = [level for profile in profiles for level in profile.levels]
    devices = sorted({r.device for r in ranges} | {level.device for level in levels})
    for number, device in enumerate(devices, _HOST + 1):
        name("process_name", device, number)
        lanes: dict[str, int] = {}  # threads of the device
        for r in (r for r in ranges if r.device == device):
            lane = r.queue or ("kernels" if r.kind is Kind.KERNEL else "called")
            if lane not in lanes:
                lanes[lane] = len(lanes)
                name("thread_name", lane, number, lanes[lane])
            args: dict[str, Any] = {"runs": r.runs} if r.kind is Kind.KERNEL else {}
            args |= {"bytes": r.nbytes} if r.kind is Kind.COPY else {}
            args |= {"line": r.line} if r.line else {}
            text = f"{r.name} {_short(r.line)}" if r.line else r.name
            complete(text, r.kind.value, number, lanes[lane], r.start_ns, r.end_ns, **args)
        for level in (level for level in levels if level.device == device):
            used = {"in use": level.in_use, "kept for reuse": level.cached}
            ts = (level.time_ns - start_ns) / 1e3
            events.append({"ph": "C", "name": "memory (bytes)", "pid": number, "tid": 0, "ts": ts, "args": used})
    return events


def _short(line: str) -> str:
    """`model.py:12` of `dir/model.py:12, in loss`."""
    return os.path.basename(line.partition(", in ")[0])


trim_public(globals(), __all__)
