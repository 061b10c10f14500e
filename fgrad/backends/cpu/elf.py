"""Object files into images: `link` lays the sections of one ELF object out as one blob.

Everything lies in one blob, so what is reached relative to the program counter is inside the blob,
wherever it is loaded; with position-independent code of the small model nothing absolute is left
but tables of pointers (`Image.fixups`). The blob is what a cache keeps, and loading it is one copy.
It must be loaded on a page boundary. Whatever an image cannot hold is a LinkError with its name.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass

from fgrad.errors import LinkError

X86_64, AARCH64 = 62, 183  # e_machine
_PROGBITS_FLAG_WRITE, _FLAG_ALLOC, _FLAG_TLS = 1, 2, 0x400
_SYMTAB, _RELA, _NOBITS, _REL = 2, 4, 8, 9
_NOT_LOADED = (".eh_frame", ".debug", ".comment", ".note", ".llvm")
_MASK64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Image:
    """Linked code.

    blob     code and constants; its first byte is to lie on a page boundary
    symbols  offsets of the global functions
    fixups   offsets of 64-bit words that hold an offset into the blob and want its address added
    """

    blob: bytes
    symbols: dict[str, int]
    fixups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Section:
    name_at: int
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    section: int
    where: int | None  # offset in the blob, None if it is not loaded


class _Object:
    """A parsed object file: sections with names, symbols not yet placed."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
            raise LinkError("this is not a 64-bit little-endian ELF object")
        kind, self.machine = struct.unpack_from("<HH", data, 16)
        if kind != 1:
            raise LinkError("this ELF file is not a relocatable object")
        if self.machine not in (X86_64, AARCH64):
            raise LinkError(f"ELF machine {self.machine}: only x86-64 and AArch64 can be linked")
        (start,) = struct.unpack_from("<Q", data, 40)
        entry_bytes, count, names = struct.unpack_from("<HHH", data, 58)
        self.data = data
        try:
            self.sections = [self._section(start + i * entry_bytes) for i in range(count)]
            self.names = [self.text(names, s.name_at) for s in self.sections]
        except (struct.error, IndexError, ValueError) as error:
            raise LinkError(f"damaged ELF object: {error}") from None

    def _section(self, at: int) -> _Section:
        name, kind, flags, _, offset, size, link, info, align, _ = struct.unpack_from(
            "<IIQQQQIIQQ", self.data, at
        )
        return _Section(name, kind, flags, offset, size, link, info, align)

    def text(self, table: int, at: int) -> str:
        start = self.sections[table].offset + at
        return self.data[start : self.data.index(b"\0", start)].decode()


def link(object_bytes: bytes) -> Image:
    """Lay out and relocate one ELF object of this or another machine.

    Raises LinkError naming the symbol or section for an undefined symbol (lowering let a call
    through), mutable or thread-local data, a relocation that is absolute in 32 bits, an unknown
    relocation, or one out of range.
    """
    source = _Object(object_bytes)
    blob = bytearray()
    place = _lay_out(source, blob)
    table, symbols = _read_symbols(source, place)
    relocate = _X86_64(blob) if source.machine == X86_64 else _AArch64(blob)
    for section in source.sections:
        if section.info not in place:
            continue
        if section.kind == _REL:
            raise LinkError("relocations without addend (REL) are not supported")
        if section.kind != _RELA:
            continue
        for at in range(section.offset, section.offset + section.size, 24):
            offset, info, addend = struct.unpack_from("<QQq", object_bytes, at)
            symbol = table[info >> 32]
            if symbol.where is None:
                raise _unresolved(source, symbol)
            relocate.apply(
                info & 0xFFFFFFFF, place[section.info] + offset, info >> 32, symbol, addend
            )
    return Image(bytes(blob), symbols, tuple(relocate.fixups))


def _lay_out(source: _Object, blob: bytearray) -> dict[int, int]:
    """Append every loaded section to `blob`; return the offset of each by its number."""
    place = {}
    for i, section in enumerate(source.sections):
        name = source.names[i]
        if not section.flags & _FLAG_ALLOC or not section.size or name.startswith(_NOT_LOADED):
            continue
        if section.flags & _FLAG_TLS:
            raise LinkError(f"thread-local section {name}: keep state in the entry's table")
        if section.flags & _PROGBITS_FLAG_WRITE and not name.startswith(".data.rel.ro"):
            raise LinkError(
                f"mutable global data{_owners(source, i)} in section {name}: "
                "keep state in the entry's table"
            )
        blob.extend(bytes(-len(blob) % max(section.align, 16)))
        place[i] = len(blob)
        if section.kind == _NOBITS:
            blob.extend(bytes(section.size))
        else:
            blob.extend(source.data[section.offset : section.offset + section.size])
    return place


def _owners(source: _Object, section: int) -> str:
    """Return the quoted names of the symbols in a section, for a message."""
    table, _ = _read_symbols(source, {})
    names = [repr(symbol.name) for symbol in table if symbol.section == section and symbol.name]
    return " " + ", ".join(names) if names else ""


def _read_symbols(source: _Object, place: dict[int, int]) -> tuple[list[_Symbol], dict[str, int]]:
    """Return all symbols by number, and the offsets of the global functions by name."""
    table, public = [], {}
    for section in source.sections:
        if section.kind != _SYMTAB:
            continue
        for at in range(section.offset, section.offset + section.size, 24):
            name_at, info, _, home, value, _ = struct.unpack_from("<IBBHQQ", source.data, at)
            where = place[home] + value if home in place else None
            symbol = _Symbol(source.text(section.link, name_at), home, where)
            table.append(symbol)
            is_function, is_global = info & 15 == 2, info >> 4 != 0
            if where is not None and is_function and is_global:
                public[symbol.name] = where
    return table, public


def _unresolved(source: _Object, symbol: _Symbol) -> LinkError:
    if symbol.section == 0:
        return LinkError(
            f"undefined symbol {symbol.name!r}: the code calls or reads something outside it; "
            "lowering must expand it"
        )
    names = source.names
    home = names[symbol.section] if symbol.section < len(names) else f"#{symbol.section}"
    return LinkError(f"reference to {symbol.name or home!r} in section {home}, which is not loaded")


class _Relocator:
    """Writes relocated values into a blob; one subclass per machine holds the kinds it knows.

    A kind's action receives (place, value, got): offset of the field, offset of the target in the
    blob plus addend, and a function that makes (once) a word holding the target and gives its
    offset.
    """

    machine: str
    actions: dict[int, Callable[..., None]]

    def __init__(self, blob: bytearray) -> None:
        self.blob = blob
        self.fixups: list[int] = []
        self._got: dict[int, int] = {}

    def apply(self, kind: int, place: int, number: int, symbol: _Symbol, addend: int) -> None:
        action = self.actions.get(kind)
        if action is None:
            raise LinkError(
                f"{self.machine} relocation {kind} against {symbol.name!r} cannot be linked; "
                "compile position-independent code of the small model"
            )
        assert symbol.where is not None, "unresolved symbols were refused before"
        target = symbol.where
        try:
            action(self, place, target + addend, lambda: self._got_slot(number, target) + addend)
        except OverflowError:
            raise LinkError(
                f"{self.machine} relocation {kind} against {symbol.name!r} is out of range"
            ) from None

    def _got_slot(self, number: int, target: int) -> int:
        if number not in self._got:
            self.blob.extend(bytes(-len(self.blob) % 8))
            self._got[number] = len(self.blob)
            self.fixups.append(len(self.blob))
            self.blob.extend(struct.pack("<Q", target))
        return self._got[number]

    def absolute64(self, place: int, value: int, got: Callable[[], int]) -> None:
        struct.pack_into("<Q", self.blob, place, value & _MASK64)
        self.fixups.append(place)

    def relative64(self, place: int, value: int, got: Callable[[], int]) -> None:
        struct.pack_into("<q", self.blob, place, value - place)

    def relative32(self, place: int, value: int, got: Callable[[], int]) -> None:
        _check(value - place, 31)
        struct.pack_into("<i", self.blob, place, value - place)

    def got_relative32(self, place: int, value: int, got: Callable[[], int]) -> None:
        _Relocator.relative32(self, place, got(), got)


def _check(value: int, bits: int) -> None:
    """Raise OverflowError unless `value` fits a signed field of `bits` bits and a sign."""
    if not -1 << bits <= value < 1 << bits:
        raise OverflowError


class _X86_64(_Relocator):  # noqa: N801 - the machine's own name
    """System V ABI for x86-64, table of relocation types."""

    machine = "x86-64"
    actions = {
        1: _Relocator.absolute64,  # 64
        2: _Relocator.relative32,  # PC32
        4: _Relocator.relative32,  # PLT32
        9: _Relocator.got_relative32,  # GOTPCREL
        24: _Relocator.relative64,  # PC64
        41: _Relocator.got_relative32,  # GOTPCRELX
        42: _Relocator.got_relative32,  # REX_GOTPCRELX
    }


class _AArch64(_Relocator):
    """ELF for the Arm 64-bit architecture, tables of static relocations."""

    machine = "AArch64"

    def _put(self, place: int, shift: int, mask: int, field: int) -> None:
        (word,) = struct.unpack_from("<I", self.blob, place)
        word = word & ~(mask << shift) | (field & mask) << shift
        struct.pack_into("<I", self.blob, place, word)

    def _adr(self, place: int, field: int) -> None:
        _check(field, 20)
        self._put(place, 29, 3, field)
        self._put(place, 5, 0x7FFFF, field >> 2)

    def page(self, place: int, value: int, got: Callable[[], int]) -> None:
        self._adr(place, (value >> 12) - (place >> 12))  # right because the blob lies on a page

    def got_page(self, place: int, value: int, got: Callable[[], int]) -> None:
        self._adr(place, (got() >> 12) - (place >> 12))

    def adr(self, place: int, value: int, got: Callable[[], int]) -> None:
        self._adr(place, value - place)

    def got_low12(self, place: int, value: int, got: Callable[[], int]) -> None:
        self._put(place, 10, 0xFFF, (got() & 0xFFF) >> 3)

    @staticmethod
    def low12(scale: int) -> Callable[..., None]:
        """Low 12 bits of an address, in units of ``1 << scale`` bytes."""

        def action(self: "_AArch64", place: int, value: int, got: Callable[[], int]) -> None:
            self._put(place, 10, 0xFFF, (value & 0xFFF) >> scale)

        return action

    @staticmethod
    def branch(bits: int, shift: int) -> Callable[..., None]:
        """Distance in instructions, in a field of `bits` bits."""

        def action(self: "_AArch64", place: int, value: int, got: Callable[[], int]) -> None:
            _check(value - place, bits + 1)
            self._put(place, shift, (1 << bits) - 1, (value - place) >> 2)

        return action


_AArch64.actions = {
    257: _Relocator.absolute64,  # ABS64
    260: _Relocator.relative64,  # PREL64
    261: _Relocator.relative32,  # PREL32
    274: _AArch64.adr,  # ADR_PREL_LO21
    275: _AArch64.page,  # ADR_PREL_PG_HI21
    276: _AArch64.page,  # ADR_PREL_PG_HI21_NC
    277: _AArch64.low12(0),  # ADD_ABS_LO12_NC
    278: _AArch64.low12(0),  # LDST8_ABS_LO12_NC
    279: _AArch64.branch(14, 5),  # TSTBR14
    280: _AArch64.branch(19, 5),  # CONDBR19
    282: _AArch64.branch(26, 0),  # JUMP26
    283: _AArch64.branch(26, 0),  # CALL26
    284: _AArch64.low12(1),  # LDST16_ABS_LO12_NC
    285: _AArch64.low12(2),  # LDST32_ABS_LO12_NC
    286: _AArch64.low12(3),  # LDST64_ABS_LO12_NC
    299: _AArch64.low12(4),  # LDST128_ABS_LO12_NC
    311: _AArch64.got_page,  # ADR_GOT_PAGE
    312: _AArch64.got_low12,  # LD64_GOT_LO12_NC
}
