"""Holes: what is baked, what is patched, what is refused."""

import ctypes
import random
from typing import Any

import pytest

from fgrad.errors import LinkError
from fgrad.hw.command import Block, Exec, Role, Struct, Sym, show
from fgrad.hw.libc import raw_block, words
from fgrad.hw.link import Encoded, Patch, bake, encode_words, join, link

CONTROL, RUNTIME, ARENA = Sym(Role.CONTROL), Sym(Role.RUNTIME), Sym(Role.ARENA)
INS = [Sym(Role.INPUT, i) for i in range(4)]
OUT = Sym(Role.OUTPUT, 0)


def test_constants_are_baked_and_only_calls_are_patched() -> None:
    encoded = encode_words([CONTROL, RUNTIME, ARENA, INS[0], 5, OUT, Sym(Role.INPUT, 0, 16)])
    linked = link(encoded, {RUNTIME: 111})
    assert linked.syms == (INS[0], OUT)
    instance = linked.instance(raw_block(4096), {ARENA: 222})
    memory = words(instance.address)
    instance.fill([1000, 2000])
    assert [memory[i] for i in range(7)] == [instance.address, 111, 222, 1000, 5, 2000, 1016]
    assert instance.rewritten == 3


def test_only_numbers_that_changed_are_written() -> None:
    r = random.Random(0)
    linked = link(encode_words(INS))
    instance = linked.instance(raw_block(4096))
    memory, current, expected = words(instance.address), [0] * 4, 0
    for _ in range(1000):
        new = [r.choice((old, r.getrandbits(63))) for old in current]
        expected += sum(a != b for a, b in zip(new, current, strict=True))
        r.choice((instance.fill, lambda new: instance.fill_words(0, new)))(new)
        assert [memory[i] for i in range(4)] == new
        assert instance.rewritten == expected
        current = new


def test_what_others_wrote_into_a_hole_is_noticed() -> None:
    instance = link(encode_words(INS)).instance(raw_block(4096))
    instance.fill([1, 2, 3, 4])
    words(instance.address)[2] = 99
    instance.fill([1, 2, 3, 4])
    assert words(instance.address)[2] == 3


def test_negative_numbers_are_their_bits() -> None:
    instance = link(encode_words(INS[:1])).instance(raw_block(4096))
    for fill in (instance.fill, lambda numbers: instance.fill_words(0, numbers)):
        fill([-1])
        assert words(instance.address)[0] == -1
        fill([(1 << 64) - 2])
        assert words(instance.address)[0] == -2
    assert instance.rewritten == 4


def test_fields_of_bits_are_merged() -> None:
    patches = (
        Patch(0, Sym(Role.INPUT, 0), 4, 0x00FF0000),
        Patch(0, Sym(Role.INPUT, 1), 4, 0x0000000F),
        Patch(6, Sym(Role.INPUT, 2), 1),
    )
    encoded = Encoded(b"\x00\xff\x00\xaa" * 2, patches)
    known = dict(zip(INS, (0x12, 3, 0x77), strict=False))
    assert bake(encoded, known).data == b"\x03\xff\x12\xaa\x00\xff\x77\xaa"
    with pytest.raises(LinkError, match="0x10 of in1 does not fit the bits 0xf at byte 0"):
        bake(encoded, {INS[1]: 16})


def test_holes_that_nobody_can_fill_are_refused() -> None:
    encoded = encode_words([RUNTIME, INS[0]], "square")
    with pytest.raises(LinkError, match="square was linked without a number for runtime0 at byte"):
        link(encoded)
    linked = link(encode_words([ARENA], "square"))
    with pytest.raises(LinkError, match="square was linked without a number for arena0"):
        linked.instance(raw_block(4096))
    with pytest.raises(LinkError, match="is outside the 8 bytes"):
        Encoded(bytes(8), (Patch(4, RUNTIME),))
    with pytest.raises(ValueError, match=r"takes 1 numbers \(in0\), got 2"):
        link(encode_words([INS[0]])).instance(raw_block(4096)).fill([1, 2])


def test_equal_links_are_one_object_and_the_cache_is_bounded() -> None:
    def make(n: int):
        return link(encode_words([n, RUNTIME]), {RUNTIME: 1})

    first = make(0)
    assert make(0) is first
    assert link(encode_words([0, RUNTIME]), {RUNTIME: 2}) is not first
    for n in range(100):
        make(n + 1)
    assert make(0) is not first


def test_parts_keep_their_own_control_address() -> None:
    parts = [encode_words([CONTROL, 1]), encode_words([Sym(Role.CONTROL, 0, 8), INS[0]])]
    whole, starts = join(parts, "both")
    assert starts == (0, 64)
    instance = link(whole).instance(raw_block(4096))
    instance.fill([7])
    memory = words(instance.address)
    assert [memory[0], memory[1]] == [instance.address, 1]
    assert [memory[8], memory[9]] == [instance.address + 72, 7]


# ---- structures
UNSIGNED = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}


def random_struct(r: random.Random, depth: int) -> tuple[Struct, Any]:
    """A structure of numbers, and what ctypes makes of the same fields."""
    fields, types, values = [], [], []
    for i in range(r.randrange(1, 6)):
        if depth and r.random() < 0.3:
            inner, made = random_struct(r, depth - 1)
            fields.append(inner)
            types.append((f"f{i}", type(made)))
            values.append(made)
            continue
        width = r.choice((1, 2, 4, 8))
        number = r.getrandbits(8 * width)
        fields.append((width, number))
        types.append((f"f{i}", UNSIGNED[width]))
        values.append(number)
    return Struct(tuple(fields)), type("S", (ctypes.Structure,), {"_fields_": types})(*values)


@pytest.mark.parametrize("seed", range(40))
def test_structures_are_laid_out_as_c_does(seed: int) -> None:
    struct, made = random_struct(random.Random(seed), 3)
    encoded = encode_words([struct])
    assert (struct.nbytes, struct.align) == (ctypes.sizeof(made), ctypes.alignment(made))
    assert struct.offsets == tuple(getattr(type(made), name).offset for name, _ in made._fields_)
    filled = type(made).from_buffer_copy(encoded.data[8 : 8 + struct.nbytes])
    assert all(_same(getattr(filled, name), getattr(made, name)) for name, _ in made._fields_)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, ctypes.Structure):
        return all(_same(getattr(a, name), getattr(b, name)) for name, _ in a._fields_)
    return a == b


def test_fields_of_structures_are_filled_wherever_they_stand() -> None:
    block = Block("cpu", Sym(Role.OUTPUT, 0), 64)
    tail = Struct(((2, 7), (8, INS[1])))
    inside = Struct(((1, 1), (4, Sym(Role.SCALAR, 0))))
    head = Struct(((4, 5), (8, tail), inside, (8, block.span(16, 8)), (8, tail)))
    instance = link(encode_words([head, INS[0], tail])).instance(raw_block(4096))
    instance.fill([1000, 2000, OUTPUT, 77])
    memory = ctypes.string_at(instance.address, 256)

    def word(at: int, nbytes: int = 8) -> int:
        return int.from_bytes(memory[at : at + nbytes], "little")

    first, second = word(0) - instance.address, word(16) - instance.address
    assert word(8) == 1000 and word(first, 4) == 5
    assert word(first + 8) - instance.address == second == word(first + 32) - instance.address, "equal ones are one"
    assert (word(first + 16, 1), word(first + 20, 4), word(first + 24)) == (1, 77, OUTPUT + 16)
    assert (word(second, 2), word(second + 8)) == (7, 2000)
    instance.fill([1000, 3000, OUTPUT, 77])
    assert instance.rewritten == 5, "one of the four numbers has changed"
    assert word(second + 8) == 2000 and ctypes.c_uint64.from_address(instance.address + second + 8).value == 3000


OUTPUT = 1 << 20


def test_numbers_that_do_not_fit_their_field_are_refused() -> None:
    for field, message in (
        ((3, 0), "1, 2, 4 or 8 bytes wide, not 3"),
        ((1, 256), "256 does not fit a field of 1 bytes"),
        ((2, -40_000), "-40000 does not fit a field of 2"),
        ((4, Struct(())), "an address needs a field of 8 bytes, not 4"),
    ):
        with pytest.raises(ValueError, match=message):
            Struct((field,))
    instance = link(encode_words([Struct(((4, INS[0]),))])).instance(raw_block(4096))
    with pytest.raises(LinkError, match="does not fit"):
        instance.fill([1 << 32])


def test_structures_are_readable_in_listings() -> None:
    inner = Struct(((4, INS[0]), Struct(((1, 3),))))
    text = show(Exec("f", (inner, Struct(((8, inner),)))))
    assert text == "EXEC f arguments=({u32 in0, {u8 3}}, {u64 &{u32 in0, {u8 3}}})"
