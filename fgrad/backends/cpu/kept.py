"""Lowered programs on disk: what of a lowered program its executable needs, found by the program's content.

A second process then neither lowers nor compiles what the first one did. Python functions that a program calls are
not kept: those of the program that is asked for take their places. Nothing is kept while passes are checked or shown.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from fgrad.backends.cpu.code import find_kept, keep
from fgrad.backends.cpu.elf import Image
from fgrad.config import config
from fgrad.lower.limits import Limits
from fgrad.lower.micro.machine import Element
from fgrad.lower.micro.slots import Micro
from fgrad.lower.pipeline import Lowered, Needs, lower
from fgrad.uop.aval import Aval
from fgrad.uop.content import content, functions
from fgrad.uop.dtype import to_dtype
from fgrad.uop.program import Host, Program

_ROOMS = ("uop", "lower", "backends/cpu")  # whose sources decide what a program is lowered to
_NOT_KEPT = ("sites", "marks")  # of programs that are measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(Needs):
    """A lowered program without its kernels.

    packed   the LLVM text, compressed: after compiling it is only asked for to be compiled better, or read
    names    those of the kernels
    lower    lowers the program again
    """

    packed: bytes
    names: tuple[str, ...]
    lower: Callable[[], Lowered]

    @property
    def ir(self) -> str:
        """The LLVM text."""
        return zlib.decompress(self.packed).decode()


def lower_or_find(
    program: Program, limits: Limits, inline: frozenset[int], donated: frozenset[int], name: str
) -> Summary:
    """The summary of `program`, from disk or lowered now."""

    def lowered() -> Lowered:
        return lower(program, limits, inline=inline, donated=donated, name=name)

    key = _key(program, limits, inline, donated, name)
    image = None if key is None else find_kept(key)
    if image is not None:
        return _decode(image.blob, lowered, functions(program))
    summary = summarise(lowered(), lowered)
    if key is not None:
        keep(key, Image(_encode(summary, functions(program)), {}))
    return summary


def summarise(lowered: Lowered, again: Callable[[], Lowered]) -> Summary:
    """What an executable needs of `lowered`; `again` makes the same once more."""
    packed, names = zlib.compress(lowered.ir.encode(), 1), tuple([k.name for k in lowered.kernels])
    return Summary(packed=packed, names=names, lower=again, **lowered.needs())


def _key(
    program: Program, limits: Limits, inline: frozenset[int], donated: frozenset[int], name: str
) -> str | None:
    if config.check or config.show:
        return None
    what = content(program)
    if what is None:
        return None
    machine = (limits.vector_bytes, sorted(limits.features), limits.workers, limits.l1, limits.l2)
    options = (sorted(inline), sorted(donated), name, config.planner)
    return "p" + blake2b(what + repr((machine, options, _sources())).encode(), digest_size=20).hexdigest()


@lru_cache(maxsize=1)
def _sources() -> bytes:
    """What changes whenever the code that lowers is changed."""
    digest = blake2b(digest_size=20)
    root = Path(__file__).parents[2]
    for room in _ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            status = path.stat()
            digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.digest()


def _encode(summary: Summary, given: Sequence[Host]) -> bytes:
    """`given`: the functions that the program calls; of each call only the place of its function is written."""
    fields = {name: value for name, value in summary.needs().items() if name not in _NOT_KEPT}
    fields["names"] = summary.names
    fields["aliases"] = list(summary.aliases.items())
    fields["hosts"] = [given.index(host) for host in summary.hosts]
    fields["host_avals"] = [[(str(a.dtype), a.shape, a.weak) for a in one] for one in summary.host_avals]
    fields["micro"] = [(m.kind, m.size, int(m.element), m.rows, m.vectors, m.by_rows) for m in summary.micro]
    head = json.dumps(fields).encode()
    return len(head).to_bytes(4, "little") + head + summary.packed


def _decode(data: bytes, again: Callable[[], Lowered], given: Sequence[Host]) -> Summary:
    end = 4 + int.from_bytes(data[:4], "little")
    fields: dict[str, Any] = json.loads(data[4:end])
    micro = [Micro(kind, size, Element(element), *rest) for kind, size, element, *rest in fields.pop("micro")]
    names, aliases = tuple(fields.pop("names")), dict(fields.pop("aliases"))
    hosts = tuple([given[i] for i in fields.pop("hosts")])
    avals = tuple([
        tuple([Aval(to_dtype(dtype), tuple(shape), weak) for dtype, shape, weak in one])
        for one in fields.pop("host_avals")
    ])  # fmt: skip
    return Summary(
        packed=data[end:], names=names, aliases=aliases, micro=tuple(micro), lower=again, hosts=hosts,
        host_avals=avals, **fields,
    )  # fmt: skip
