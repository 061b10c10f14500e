"""Faults as users meet them: Ctrl-C in their functions, no memory for the compiler."""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import fgrad as fg
from fgrad import lax
from fgrad import numpy as fnp
from fgrad.backends.cpu import host_calls

ROOT = Path(__file__).parents[2]
ONE = fg.ShapeDtypeStruct((), np.float32)


def in_child(source: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python source in a process of its own."""
    variables = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **environment}
    command = [sys.executable, "-c", textwrap.dedent(source)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)


# ---- Ctrl-C in Python that a program calls
def summing(function: Callable[[Any], Any]) -> Any:
    """Short enough to be run in the caller's thread."""
    return fg.jit(lambda x: lax.scan(lambda c, v: (c + fg.pure_callback(function, ONE, v), None), x[0] * 0, x)[0])


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("device", ["cpu", "python"])
def test_ctrl_c_and_exit_inside_a_callback_stay_what_they_are(device: str, kind: type[BaseException]) -> None:
    seen: list[float] = []

    def stops(x: Any) -> Any:
        seen.append(float(x))
        if x == 3 and len(seen) == 4:
            raise kind
        return x

    f, x = summing(stops), fg.device_put(np.arange(6, dtype=np.float32), device)
    with pytest.raises(kind):
        f(x)
    assert seen == [0, 1, 2, 3]
    assert float(f(x)) == 15.0


@pytest.mark.parametrize("event", ["call", "return"])
def test_ctrl_c_before_and_after_a_callback_is_heard(event: str) -> None:
    """Where the layer between native code and the function catches nothing."""
    f, x = summing(lambda v: v), fnp.arange(6, dtype=fnp.float32)
    assert float(f(x)) == 15.0
    count = [0]

    def interrupt(frame: FrameType, what: str, argument: Any) -> Any:
        if frame.f_code is host_calls._call.__code__ and what == event:
            count[0] += 1
            if count[0] == 3:
                sys.settrace(None)
                raise KeyboardInterrupt
        return interrupt

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            f(x)
    finally:
        sys.settrace(before)
    assert float(f(x)) == 15.0


# ---- no memory
def test_compiling_without_memory_is_an_error_and_no_end_of_the_process() -> None:
    if not Path("/proc/self/statm").exists():
        return
    done = in_child(
        """
        import resource
        import numpy as np
        import fgrad as fg
        from fgrad import numpy as fnp

        def limit(extra):
            with open("/proc/self/statm") as file:
                now = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (now + extra, resource.RLIM_INFINITY))

        x = fnp.ones(1000)
        for extra in (0, 1 << 20, 8 << 20):
            limit(extra)
            f = fg.jit(lambda x: fnp.cumsum(fnp.sin(x) * extra)[::-1])
            try:
                f(x)
            except MemoryError as error:
                assert "compiling: the system has no" in str(error), error
            else:
                raise SystemExit(f"there was memory with {extra}")
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
            np.testing.assert_allclose(float(f(x)[-1]), np.sin(1.0) * extra, rtol=1e-5)
        """,
        FGRAD_CACHE_DIR="",
    )
    assert (done.returncode, done.stderr) == (0, "")
