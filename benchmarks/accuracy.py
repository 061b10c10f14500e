"""Print how far the compiled functions are from the exact values: ``python -m benchmarks.accuracy``.

Every elementary and special function runs as a compiled kernel, in float32 at bit patterns that are
equally spaced over all of them and in float64 at stratified numbers, and is compared with mpmath. Sums of many
float32 numbers are compared with those in float64. The exit status is 1 if one is further away than its bound.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

import fgrad
import fgrad.numpy as fnp
from benchmarks import exact
from benchmarks.operands import Floats, operands
from fgrad import lax, nn
from fgrad.lower.functions.bounds import BOUNDS
from fgrad.lower.functions.table import FUNCTIONS

TABLE = Path(__file__).parent.parent / "docs" / "accuracy-table.inc"
SUMS_TABLE = TABLE.with_name("accuracy-sums.inc")
DTYPES = (np.dtype(np.float32), np.dtype(np.float64))

PUBLIC: dict[str, tuple[str, Callable[..., Any]]] = {
    name: (f"lax.{public}", getattr(lax, public))
    for name, public in {
        **{
            name: name
            for name in (
                *("exp", "exp2", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan"),
                *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sqrt", "rsqrt", "cbrt"),
                *("erf", "erfc", "lgamma", "digamma", "pow", "atan2"),
            )
        },
        "erfinv": "erf_inv",
        "sigmoid": "logistic",
    }.items()
} | {
    "log2": ("numpy.log2", fnp.log2),
    "log10": ("numpy.log10", fnp.log10),
    "hypot": ("numpy.hypot", fnp.hypot),
    "logaddexp": ("numpy.logaddexp", fnp.logaddexp),
    "softplus": ("nn.softplus", nn.softplus),
}

# Reductions of positive float32 numbers, given a module (fgrad.numpy, or NumPy as the judge) and the numbers.
SUMS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda m, x: m.sum(x),
    "sum of rows": lambda m, x: m.sum(x.reshape(64, -1), axis=1),
    "sum of columns": lambda m, x: m.sum(x.reshape(-1, 64), axis=0),
    "mean": lambda m, x: m.mean(x),
    "var": lambda m, x: m.var(x),
    "nansum": lambda m, x: m.nansum(x),
    "average": lambda m, x: m.average(x, weights=x),
    "trapezoid": lambda m, x: m.trapezoid(x),
    "dot": lambda m, x: m.dot(x, x),
    "matmul": lambda m, x: m.matmul(x.reshape(4, -1), x.reshape(4, -1).T),
    "einsum": lambda m, x: m.einsum("ij,ij->j", x.reshape(-1, 64), x.reshape(-1, 64)),
    "linalg.norm": lambda m, x: m.linalg.norm(x),
}
SUM_BOUND = 16.0  # half units in the last place; one number after the other loses more than a hundred


@dataclass(frozen=True, slots=True)
class Found:
    """The largest error of one function in one format.

    error  in units in the last place of the exact result; inf where NaN or an infinity is wrong
    where  the operands that gave it
    tried  how many operands were compared
    """

    name: str
    dtype: np.dtype[Any]
    error: float
    where: tuple[float, ...]
    tried: int

    @property
    def bound(self) -> float:
        bound: float = getattr(BOUNDS[self.name], self.dtype.name)
        return bound

    @property
    def holds(self) -> bool:
        return self.error <= self.bound


def measure(name: str, dtype: np.dtype[Any], count: int, judged: int) -> Found:
    """Compare about `count` results; mpmath judges the `judged` that look worst.

    Where no wider format ranks them, `judged` results are picked evenly instead.
    """
    xs = operands(name, FUNCTIONS[name].arity, dtype, count)
    ys = np.asarray(fgrad.jit(PUBLIC[name][1])(*xs))
    assert ys.dtype == dtype
    values, ranks = exact.quickly(name, xs)
    bits = np.finfo(dtype).nmant + 1
    absolute = exact.is_absolute(name, xs)
    plain = np.logical_and.reduce([np.isfinite(x) for x in xs])
    error = quick_errors(ys, values, bits, absolute)
    # An infinity of a narrow reference is believed at poles only: elsewhere it may be its own overflow.
    told = ranks | np.isnan(values) | ~plain | exact.is_pole(name, xs)
    wrong = np.flatnonzero(told & ~np.isfinite(values) & (error > 0))
    if len(wrong):
        return Found(name, dtype, float("inf"), at(xs, wrong[0]), len(ys))
    lanes = np.flatnonzero(plain & (np.isfinite(values) | ~told))
    if ranks:
        lanes = lanes[np.argsort(-error[lanes])[:judged]]
        tried = len(ys)
    else:
        lanes = lanes[:: max(1, len(lanes) // judged)]
        tried = len(lanes)
    with mpmath.workprec(exact.BITS):
        errors = [(judge(name, at(xs, i), float(ys[i]), bits, bool(absolute[i])), i) for i in lanes]
    worst, i = max(errors)
    return Found(name, dtype, worst, at(xs, i), tried)


def at(xs: list[Floats], i: Any) -> tuple[float, ...]:
    return tuple(float(x[i]) for x in xs)


def quick_errors(ys: Floats, values: Floats, bits: int, absolute: Any) -> Floats:
    """Errors against a wider format, in units in the last place; inf for a wrong NaN or infinity."""
    with np.errstate(all="ignore"):
        beyond = np.ldexp(values.dtype.type(1), 128 if bits == 24 else 1024)
        wide, limited = (np.clip(v.astype(values.dtype), -beyond, beyond) for v in (ys, values))
        error = np.abs(wide - limited) / exact.units(limited, bits, absolute)
        same = (wide == limited) | (np.isnan(ys) & np.isnan(values))
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error))


def judge(name: str, xs: tuple[float, ...], y: float, bits: int, absolute: bool) -> float:
    """The error of one result, by mpmath; an infinity stands for the number beyond the largest."""
    beyond = mpmath.mpf(2) ** (128 if bits == 24 else 1024)
    true = max(-beyond, min(beyond, exact.exactly(name, xs, y)))
    value = mpmath.sign(y) * beyond if math.isinf(y) else mpmath.mpf(y)
    if mpmath.isnan(value):
        return float("inf")
    return float(abs(value - true) / exact.unit(true, bits, absolute))


def report(names: Sequence[str], count: int, judged: int) -> Iterator[tuple[Found, Found]]:
    """The measured errors of each function, for float32 and float64."""
    for name in names:
        single, double = (measure(name, dtype, count, judged) for dtype in DTYPES)
        yield single, double


def sum_errors(count: int) -> dict[str, float]:
    """The errors of sums of `count` numbers between 0 and 1, relative, in half units in the last place (2**-24)."""
    x = np.random.default_rng(0).uniform(0, 1, count).astype(np.float32)
    found = {}
    for name, f in SUMS.items():
        got = np.asarray(f(fnp, fgrad.device_put(x)), np.float64)
        exactly = f(np, x.astype(np.float64))
        found[name] = float(np.max(np.abs(got - exactly) / np.abs(exactly))) * 2**24
    return found


def write_sums(errors: dict[str, float], count: int) -> None:
    """Put the table of sums into the documentation."""
    out = [f"Of {count:,} numbers.", "", ".. list-table::", "   :header-rows: 1", ""]
    for name, error in [("function", "half ulp"), *[(n, f"{e:.2f}") for n, e in errors.items()]]:
        out += [f"   * - {name}", f"     - {error}"]
    SUMS_TABLE.write_text("\n".join(out) + "\n", encoding="utf-8")


HEADER = ("function", "float32", "bound", "at", "float64", "bound", "at")


def cells(pair: tuple[Found, Found]) -> list[str]:
    """One row as text."""
    out = [f"{PUBLIC[pair[0].name][0]}"]
    for found in pair:
        digits = ".9g" if found.dtype == np.float32 else ".17g"
        out += [f"{found.error:.3f}", f"{found.bound:g}", ", ".join(format(x, digits) for x in found.where)]
    return out


def write(pairs: Sequence[tuple[Found, Found]]) -> None:
    """Put the table into the documentation."""
    tried = [max(pair[i].tried for pair in pairs) for i in range(2)]
    out = [f"Up to {tried[0]:,} operands in float32 and {tried[1]:,} in float64 for each function.", ""]
    out += [".. list-table::", "   :header-rows: 1", ""]
    for texts in [list(HEADER), *map(cells, pairs)]:
        out += [f"   {'* -' if i == 0 else '  -'} {text}".rstrip() for i, text in enumerate(texts)]
    TABLE.write_text("\n".join(out) + "\n", encoding="utf-8")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--only", default="", help="names of functions, by commas")
    parser.add_argument("--quick", action="store_true", help="few operands: seconds, not minutes")
    parser.add_argument("--count", type=int, default=4_000_000, help="operands of each function")
    parser.add_argument("--judged", type=int, default=2000, help="results that mpmath judges")
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    options = parser.parse_args(arguments)
    options.names = [name for name in options.only.split(",") if name] or list(FUNCTIONS)
    unknown = set(options.names) - set(FUNCTIONS)
    if unknown:
        parser.error(f"no function {', '.join(sorted(unknown))}; there are {', '.join(FUNCTIONS)}")
    if options.write and options.only:
        parser.error("--write needs all functions: leave --only out")
    if options.quick:
        options.count, options.judged = 4000, 100
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print each row as it comes; the status is 1 if a bound is broken."""
    options = parse(arguments)
    pairs = []
    widths = (16, 8, 7, 30, 8, 7, 0)
    print(*(text.ljust(width) for text, width in zip(HEADER, widths, strict=True)))
    for pair in report(options.names, options.count, options.judged):
        pairs.append(pair)
        row = [text.ljust(width) for text, width in zip(cells(pair), widths, strict=True)]
        broken = "" if all(found.holds for found in pair) else "  BEYOND THE BOUND"
        print(" ".join(row) + broken, flush=True)
    count = min(options.count, 1 << 20) // 64 * 64
    errors = {} if options.only else sum_errors(count)
    for name, error in errors.items():
        broken = "" if error <= SUM_BOUND else "  BEYOND THE BOUND"
        print(f"{name.ljust(16)} {error:8.3f} half ulp, bound {SUM_BOUND:g}{broken}", flush=True)
    if options.write:
        write(pairs)
        write_sums(errors, count)
    held = all(found.holds for pair in pairs for found in pair)
    return 0 if held and all(error <= SUM_BOUND for error in errors.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
