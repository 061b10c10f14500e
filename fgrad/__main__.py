"""The command line: ``python -m fgrad devices | config | show file.py::fn | bench file.py::fn``."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from fgrad import block_until_ready, device_put, grad, jit, tree
from fgrad._version import __version__
from fgrad.config import VARIABLES, config
from fgrad.errors import DeviceError, FgradError
from fgrad.hw.device import get_device, kinds
from fgrad.run.inspect import ShapeDtypeStruct

STAGES = ("program", "kernels", "llvm", "asm", "commands")
ARGUMENTS_HELP = (
    "one for each parameter: a number (2.0), an array's dtype and shape (float32[64,32]), "
    "or a tree of these ({'w': float32[3], 'b': 0.5})"
)


class UsageError(Exception):
    """The command line names something that is not there."""


# ---- devices and settings
def devices() -> None:
    """Print each kind of device: what it is, or why it is not available."""
    default = config.device.lower()
    for kind in kinds():
        try:
            device = get_device(kind)
        except DeviceError as error:
            state, what = "missing", str(error)
        else:
            doc = sys.modules[type(device).__module__].__doc__ or ""
            state, what = "ready", " ".join(doc.split("\n\n")[0].split())
        mark = "*" if kind == default.partition(":")[0] else " "
        print(f"{mark} {kind.upper():<10} {state:<8} {what}")


def settings() -> None:
    """Print each setting with its value, whether it was changed, and its meaning."""
    for variable in VARIABLES:
        value = config.read(variable.name)
        text = ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)
        print(f"{variable.environment_name}={text}\n    {variable.doc}")


# ---- functions in files
def load(target: str) -> Callable[..., Any]:
    """Return the function that ``path/to/file.py::name`` names; the file is run as a module."""
    file, _, name = target.partition("::")
    path = Path(file)
    if not name:
        raise UsageError(f"{target!r} does not name a function; write {file}::function")
    if not path.is_file():
        raise UsageError(f"there is no file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))  # its neighbours, as if it were run
    sys.modules.setdefault(path.stem, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    try:
        found: Callable[..., Any] = attrgetter(name)(module)
    except AttributeError:
        raise UsageError(f"{file} has no {name!r}") from None
    if not callable(found):
        raise UsageError(f"{name} in {file} is {found!r}, not a function")
    return found


def argument(text: str) -> Any:
    """Read one argument.

    >>> argument("{'w': float32[2,3], 'b': 0.5}")
    {'w': ShapeDtypeStruct(shape=(2, 3), dtype=float32), 'b': 0.5}
    """
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, UsageError):
        raise UsageError(f"cannot read the argument {text!r}; it is {ARGUMENTS_HELP}") from None


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Subscript(value=ast.Name(id=dtype), slice=ast.Tuple(elts=sizes)):
            return ShapeDtypeStruct([_value(n) for n in sizes], dtype)
        case ast.Subscript(value=ast.Name(id=dtype), slice=size):
            return ShapeDtypeStruct((_value(size),), dtype)
        case ast.Name(id=dtype):
            return ShapeDtypeStruct((), dtype)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {ast.literal_eval(k): _value(v) for k, v in zip(keys, values, strict=True) if k}
        case ast.Tuple(elts=items):
            return tuple([_value(x) for x in items])
        case ast.List(elts=items):
            return [_value(x) for x in items]
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise UsageError from None


def chosen(options: argparse.Namespace) -> tuple[Any, list[Any]]:
    """-> (the jitted function that the options name, its arguments)."""
    function = load(options.function)
    if options.grad is not None:
        at = tuple([int(i) for i in options.grad.split(",")])
        function = grad(function, argnums=at if len(at) > 1 else at[0])
    jitted = function if hasattr(function, "lower") else jit(function)
    return jitted, [argument(text) for text in options.arguments]


def show(options: argparse.Namespace) -> None:
    """Print a function at the stages that were asked for."""
    jitted, arguments = chosen(options)
    lowered = jitted.lower(*arguments)
    stages = options.stage or ["program", "kernels"]
    for stage in stages:
        title = f"== {stage}\n" if len(stages) > 1 else ""
        print(f"{title}{lowered.as_text(stage)}")


# ---- time
def filled(x: Any, rng: np.random.Generator) -> Any:
    """An array for a ShapeDtypeStruct: normal numbers, small whole numbers or bools."""
    if not isinstance(x, ShapeDtypeStruct):
        return x
    normal = rng.standard_normal(x.shape)
    if x.dtype.kind in "iu":
        return device_put(np.abs(normal).astype(x.dtype))
    return device_put((normal > 0) if x.dtype.kind == "b" else np.asarray(normal).astype(x.dtype))


def bench(options: argparse.Namespace) -> None:
    """Print how long a function takes, the first time and then."""
    jitted, arguments = chosen(options)
    rng = np.random.default_rng(0)
    arguments = tree.map(lambda x: filled(x, rng), arguments)
    begin = time.perf_counter()
    block_until_ready(jitted(*arguments))
    first = time.perf_counter() - begin
    times: list[float] = []
    deadline = time.perf_counter() + options.seconds
    while time.perf_counter() < deadline or len(times) < 3:
        begin = time.perf_counter()
        block_until_ready(jitted(*arguments))
        times.append(time.perf_counter() - begin)
    cost = jitted.lower(*arguments).cost_analysis()
    best = min(times)
    print(f"first call {first * 1e3:10.2f} ms   traced, compiled or loaded from disk, and run")
    print(f"median     {statistics.median(times) * 1e6:10.2f} us   of {len(times)} calls")
    print(f"minimum    {best * 1e6:10.2f} us")
    print(f"estimated  {cost['flops'] / best / 1e9:10.2f} GFLOP/s at the minimum")
    print(f"           {cost['bytes accessed'] / best / 1e9:10.2f} GB/s in {cost['kernels']:.0f} kernels")


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser("python -m fgrad", description="Look into fgrad.")
    top.add_argument("--version", action="version", version=f"fgrad {__version__}")
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("devices", help="the devices, and why one is not there")
    commands.add_parser("config", help="the settings and their values")
    for name, text in (("show", "print a function at each stage"), ("bench", "time a function")):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("function", help="path/to/file.py::name")
        command.add_argument("arguments", nargs="*", metavar="ARGUMENT", help=ARGUMENTS_HELP)
        command.add_argument("--grad", metavar="ARGNUMS", nargs="?", const="0", help="take its gradient first: 0,2")
        if name == "show":
            command.add_argument("--stage", action="append", choices=STAGES, help="may be repeated")
        else:
            command.add_argument("--seconds", type=float, default=1.0, help="how long to measure")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    options = parser().parse_args(argv)
    run: dict[str, Callable[[], None]] = {
        "devices": devices,
        "config": settings,
        "show": lambda: show(options),
        "bench": lambda: bench(options),
    }
    try:
        run[options.command]()
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except FgradError as error:
        print("\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
