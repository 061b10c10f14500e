"""Print our time against our peers': ``python -m benchmarks.compare --help``."""

import argparse
import importlib.util
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import contractions, dispatch, elementwise, learning, loops, movement, startup, updates
from benchmarks.measure import Times, Wait, interleave, peak_bandwidth, peak_flops
from benchmarks.work import Library, Run, Work

FAMILIES = (dispatch, elementwise, movement, updates, contractions, learning, loops)
TABLE = Path(__file__).parent.parent / "docs" / "performance-table.inc"


@dataclass(frozen=True, slots=True)
class Row:
    """A measured line of the table; `ours` is the name under which our own times stand."""

    name: str
    target: float
    ours: str
    times: dict[str, Times]
    unit: str = "s"
    speed: str = ""

    @property
    def best_peer(self) -> str:
        """The peer with the smallest median, or "" without peers."""
        peers = [name for name in self.times if name != self.ours]
        return min(peers, key=lambda name: self.times[name].median_s, default="")

    def ratio(self, figure: str) -> float | None:
        """Ours over the best peer's, by "median_s" or by "min_s"."""
        others = [getattr(t, figure) for name, t in self.times.items() if name != self.ours]
        return getattr(self.times[self.ours], figure) / max(min(others), 1e-12) if others else None


def contestants(
    work: Work, ours: Library, peers: Sequence[str], jax: Library | None
) -> dict[str, tuple[Run, Wait]]:
    """Everybody who can do this work, with the way to wait for the result."""
    runs: dict[str, tuple[Run, Wait]] = {ours.name: (work.build(ours), ours.wait)}
    if jax is not None:
        runs["jax"] = (work.build(jax), jax.wait)
    if "torch" in peers and work.torch:
        runs["torch"] = (work.torch(), finished)
    if "numpy" in peers and work.numpy:
        runs["numpy"] = (work.numpy(), finished)
    return runs


def finished(_: object) -> None:
    """PyTorch on the CPU and NumPy return when the work is done."""


def speed(work: Work, seconds: float, flops: float, bandwidth: float) -> str:
    """What our time means for a kernel, as a share of the machine's own peak."""
    if work.flops:
        reached = work.flops / seconds
        return f"{reached / 1e9:.0f} GFLOP/s ({reached / flops:.0%})"
    if work.moved:
        reached = work.moved / seconds
        return f"{reached / 1e9:.1f} GB/s ({reached / bandwidth:.0%})"
    return ""


def measure(options: argparse.Namespace) -> Iterator[Row | str]:
    """Yield a row for each piece of work that was chosen, or the text of why it failed."""
    ours = Library(options.ours)
    use_jax = "jax" in options.peers and options.ours != "jax"
    jax = Library("jax") if use_jax else None
    flops, bandwidth = peak_flops(), peak_bandwidth()
    for work in (work for family in FAMILIES for work in family.WORK if chosen(work.name, options)):
        try:
            times = interleave(contestants(work, ours, options.peers, jax), options.seconds)
        except Exception:  # one work that a library cannot do must not hide the others
            yield f"{work.name}: failed\n{traceback.format_exc(limit=-3)}"
            continue
        shown = speed(work, times[ours.name].median_s, flops, bandwidth)
        yield Row(work.name, work.target, ours.name, times, speed=shown)
    peers = [peer for peer in options.peers if peer != options.ours]
    for case in (case for case in startup.CASES if chosen(case.name, options)):
        try:
            times = startup.compare(case, options.ours, peers)
        except RuntimeError as error:
            yield str(error)
            continue
        yield Row(case.name, case.target, ours.name, times, unit=case.unit)


def chosen(name: str, options: argparse.Namespace) -> bool:
    """Is one of the words of --only part of this name?"""
    return not options.only or any(word in name.lower() for word in options.only)


def quantity(value: float, unit: str) -> str:
    """Three digits and a prefix: 0.00123 s is 1.23 ms."""
    if unit == "B":
        return f"{value / 2**20:.1f} MiB"
    for factor, name in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {name}"
    return f"{value * 1e9:.3g} ns"


def cells(row: Row) -> list[str]:
    """One row as text: name, ours, best peer, ratio, ratio of minima, target, speed."""
    peer = row.best_peer
    ratios = [row.ratio("median_s"), row.ratio("min_s")]
    return [
        row.name,
        quantity(row.times[row.ours].median_s, row.unit),
        f"{quantity(row.times[peer].median_s, row.unit)} {peer}" if peer else "-",
        *("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
        f"{row.target:g}",
        row.speed,
    ]


HEADER = ["work", "ours", "best peer", "ratio", "of minima", "target", "speed"]
WIDTHS = (42, 10, 22, 7, 9, 7, 24)


def line(texts: Sequence[str]) -> str:
    return " ".join(text.ljust(width) for text, width in zip(texts, WIDTHS, strict=True)).rstrip()


def write(rows: Sequence[Row]) -> None:
    """Put the table into the documentation."""
    out = [".. list-table::", "   :header-rows: 1", ""]
    for texts in [HEADER, *map(cells, rows)]:
        out += [f"   {'* -' if i == 0 else '  -'} {text}".rstrip() for i, text in enumerate(texts)]
    TABLE.write_text("\n".join(out) + "\n", encoding="utf-8")


def words(text: str) -> list[str]:
    return [word.strip().lower() for word in text.split(",") if word.strip()]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("--only", type=words, default=[], help="parts of names, by commas")
    parser.add_argument("--peers", type=words, default=["jax", "torch", "numpy"])
    parser.add_argument("--ours", default="fgrad", help="a library with JAX's layout")
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each piece of work")
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    options = parser.parse_args()
    unknown = set(options.peers) - {"jax", "torch", "numpy"}
    if unknown:
        parser.error(f"peers are jax, torch and numpy, not {', '.join(sorted(unknown))}")
    for peer in list(options.peers):
        if importlib.util.find_spec(peer) is None:
            print(f"{peer} is not installed; going on without it", file=sys.stderr)
            options.peers.remove(peer)
    return options


def main() -> int:
    """Measure, print each row as it comes; the status is 1 if something could not be measured."""
    options = parse()
    rows: list[Row] = []
    failures = 0
    print(line(HEADER))
    for result in measure(options):
        if isinstance(result, Row):
            rows.append(result)
            print(line(cells(result)), flush=True)
        else:
            failures += 1
            print(result, file=sys.stderr, flush=True)
    if options.write:
        write(rows)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
