"""Words with holes: what an encoder makes of commands, and how the holes are filled.

`Encoded` is what a device will read, with a Patch for every Sym in it. Linking fills the holes
whose numbers stay the same (addresses of arenas, of code, of captured arrays) once and for all; the
rest are filled at each call from inputs, outputs, scalars and ticks, and written only where the
number changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fgrad.errors import LinkError
from fgrad.hw.command import Role, Span, Struct, Sym
from fgrad.hw.libc import ffi

_CACHED_LINKS = 64


@dataclass(frozen=True, slots=True)
class Patch:
    """A hole: `width` bytes (1, 2, 4 or 8, little-endian) at `offset` take the number of `sym`.

    mask  the bits of the field that are written; the number is shifted to its lowest set bit
    """

    offset: int
    sym: Sym
    width: int = 8
    mask: int = -1

    def __post_init__(self) -> None:
        if self.width not in (1, 2, 4, 8):
            raise ValueError(f"a patch is 1, 2, 4 or 8 bytes wide, not {self.width}")
        if not self.mask & self._full():
            raise ValueError("a patch with an empty mask writes nothing")

    def _full(self) -> int:
        return (1 << 8 * self.width) - 1

    def merge(self, field: int, number: int) -> int:
        """The field after the number was written into it. Raises LinkError if it does not fit.

        Numbers of 64 bits may be negative: they are the same bits.
        """
        full = self._full()
        mask = self.mask & full
        shift = (mask & -mask).bit_length() - 1
        bits = mask >> shift
        number &= (1 << 64) - 1
        if number & ~bits:
            raise LinkError(f"{number:#x} of {self.sym} does not fit the bits {mask:#x} at byte {self.offset}")
        return field & ~mask & full | number << shift


@dataclass(frozen=True, slots=True)
class Encoded:
    """Bytes for a device and their holes. The name is for messages."""

    data: bytes
    patches: tuple[Patch, ...] = ()
    name: str = "program"

    def __post_init__(self) -> None:
        for patch in self.patches:
            if patch.offset < 0 or patch.offset + patch.width > len(self.data):
                raise LinkError(
                    f"{self.name}: a patch of {patch.width} bytes at {patch.offset} is outside "
                    f"the {len(self.data)} bytes"
                )


def join(parts: Sequence[Encoded], name: str, align: int = 64) -> tuple[Encoded, tuple[int, ...]]:
    """-> (one after the other, each at a multiple of `align`, where each begins).

    CONTROL of a part is the address of that part: it becomes the whole's plus an offset.
    """
    data, patches, starts = bytearray(), [], []
    for part in parts:
        data += bytes(-len(data) % align)
        start = len(data)
        starts.append(start)
        data += part.data
        for patch in part.patches:
            sym = patch.sym
            if sym.role is Role.CONTROL:
                sym = replace(sym, plus=sym.plus + start)
            patches.append(replace(patch, offset=patch.offset + start, sym=sym))
    return Encoded(bytes(data), tuple(patches), name), tuple(starts)


def encode_words(words: Sequence[int | Sym | Struct], name: str = "program") -> Encoded:
    """Words of eight bytes; each Sym becomes a hole.

    A Struct becomes its address: it stands behind the words, and what it points to behind it; equal ones once.
    """
    return _encode([(8 * i, 8, word) for i, word in enumerate(words)], 8 * len(words), name)


def _encode(fields: list[tuple[int, int, int | Sym | Span | Struct]], nbytes: int, name: str) -> Encoded:
    """The fields (offset, width, value) in `nbytes` bytes, and after them what they point to."""
    data, patches = bytearray(nbytes), []
    placed: dict[Struct, int] = {}
    waiting = list(reversed(fields))
    while waiting:
        at, width, value = waiting.pop()
        if isinstance(value, Struct):
            if value not in placed:
                data += bytes(-len(data) % max(value.align, 8))
                placed[value] = len(data)
                data += bytes(value.nbytes)
                waiting += reversed(_fields_of(value, placed[value]))
            value = Sym(Role.CONTROL, 0, placed[value])
        elif isinstance(value, Span):
            value = value.address
        if isinstance(value, Sym):
            patches.append(Patch(at, value, width))
        else:
            data[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
    return Encoded(bytes(data), tuple(patches), name)


def _fields_of(struct: Struct, start: int) -> list[tuple[int, int, int | Sym | Span | Struct]]:
    """Offset, width and value of each, those of structures inside as well."""
    found = []
    for at, field in zip(struct.offsets, struct.fields, strict=True):
        found += _fields_of(field, start + at) if isinstance(field, Struct) else [(start + at, *field)]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """Bytes whose holes of link time are filled. Equal links are one object: see `link`.

    holes  the patches that are left, all of them per call
    own    the patches that each copy fills with its own numbers
    syms   the numbers a call must give, in the order in which `Instance.fill` takes them
    """

    name: str
    data: bytes
    holes: tuple[Patch, ...]
    own: tuple[Patch, ...]
    syms: tuple[Sym, ...]

    def instance(self, address: int, known: Mapping[Sym, int] | None = None) -> Instance:
        """Write a copy at `address`, which is memory that a device reads.

        known  the copy's own scratch, arena and handle; CONTROL is `address`

        Raises LinkError if one of them is missing.
        """
        numbers = {**(known or {}), Sym(Role.CONTROL): address}
        baked = bake(Encoded(self.data, self.own, self.name), numbers)
        _refuse(baked, baked.patches)
        return Instance(self, baked.data, address)


def bake(encoded: Encoded, known: Mapping[Sym, int]) -> Encoded:
    """Fill the holes whose Sym, or whose Sym without `plus`, is known; the others stay."""
    data = bytearray(encoded.data)
    left = []
    for patch in encoded.patches:
        number = _number(patch.sym, known)
        if number is None:
            left.append(patch)
            continue
        where = slice(patch.offset, patch.offset + patch.width)
        field = patch.merge(int.from_bytes(data[where], "little"), number)
        data[where] = field.to_bytes(patch.width, "little")
    return Encoded(bytes(data), tuple(left), encoded.name)


def _number(sym: Sym, known: Mapping[Sym, int]) -> int | None:
    number = known.get(sym)
    if number is None and sym.plus:
        number = known.get(Sym(sym.role, sym.index))
        number = None if number is None else number + sym.plus
    return number


_links: OrderedDict[tuple[Encoded, frozenset[tuple[Sym, int]]], Linked] = OrderedDict()


def link(encoded: Encoded, known: Mapping[Sym, int] | None = None) -> Linked:
    """Fill what is known at link time.

    The same bytes linked with the same numbers give the same object, as long as it is among the
    newest 64. Raises LinkError if a hole is left that no call can fill.
    """
    key = (encoded, frozenset((known or {}).items()))
    found = _links.get(key)
    if found is None:
        baked = bake(encoded, known or {})
        own = tuple([p for p in baked.patches if p.sym.role.is_per_copy])
        holes = tuple([p for p in baked.patches if p.sym.role.is_per_call])
        _refuse(baked, [p for p in baked.patches if p not in own and p not in holes])
        found = Linked(baked.name, baked.data, holes, own, _syms(holes))
        _links[key] = found
        while len(_links) > _CACHED_LINKS:
            _links.popitem(last=False)
    return found


def _refuse(encoded: Encoded, left: Sequence[Patch]) -> None:
    if left:
        names = ", ".join(f"{patch.sym} at byte {patch.offset}" for patch in left)
        raise LinkError(f"{encoded.name} was linked without a number for {names}")


def _syms(patches: Iterable[Patch]) -> tuple[Sym, ...]:
    """The distinct per-call Syms without their `plus`, by role and index."""
    found = {Sym(patch.sym.role, patch.sym.index) for patch in patches}
    roles = list(Role)
    return tuple(sorted(found, key=lambda sym: (roles.index(sym.role), sym.index)))


class Instance:
    """A copy of linked bytes in memory that a device reads.

    rewritten  how many holes `fill` has written so far
    """

    __slots__ = ("linked", "address", "rewritten", "_bytes", "_words")

    def __init__(self, linked: Linked, data: bytes, address: int) -> None:
        self.linked = linked
        self.address = address
        self.rewritten = 0
        self._bytes = ffi.buffer(ffi.cast("char*", address), len(data))
        self._bytes[:] = data
        self._words = ffi.cast("uint64_t*", address)

    def fill(self, numbers: Sequence[int]) -> None:
        """Fill the holes from the numbers of `Linked.syms`; write only where something changes.

        What is there is compared in memory, so others may write the holes as well. The device must
        not be reading. Raises ValueError for a wrong count of numbers.
        """
        linked = self.linked
        if len(numbers) != len(linked.syms):
            raise ValueError(
                f"{linked.name} takes {len(linked.syms)} numbers "
                f"({', '.join(map(str, linked.syms))}), got {len(numbers)}"
            )
        values = dict(zip(linked.syms, numbers, strict=True))
        for patch in linked.holes:
            sym = patch.sym
            self._write(patch, values[Sym(sym.role, sym.index)] + sym.plus)

    def _write(self, patch: Patch, number: int) -> None:
        memory = self._bytes
        where = slice(patch.offset, patch.offset + patch.width)
        old = int.from_bytes(memory[where], "little")
        new = patch.merge(old, number)
        if new != old:
            memory[where] = new.to_bytes(patch.width, "little")
            self.rewritten += 1

    def fill_words(self, first: int, numbers: Sequence[int]) -> None:
        """Fill adjacent holes of eight bytes from byte `first` on: `fill` without the look-ups."""
        words = self._words
        at = first >> 3
        for number in numbers:
            number &= 0xFFFF_FFFF_FFFF_FFFF
            if words[at] != number:
                words[at] = number
                self.rewritten += 1
            at += 1
