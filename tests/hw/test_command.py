"""Commands: what they refuse, and how they print."""

import pytest

from fgrad.hw.command import (
    Barrier,
    Block,
    Copy,
    Exec,
    Host,
    Poll,
    Role,
    Signal,
    Span,
    Sym,
    Timestamp,
    Wait,
    Write,
    accesses,
    listing,
)

A = Block("cpu", Sym(Role.INPUT, 0), 64)
B = Block("cpu:1", 0x7000_0000, 128)


def test_a_span_stays_inside_its_block() -> None:
    assert A.span(16).length == 48
    for offset, length in ((-1, 4), (60, 5), (0, 65), (0, -1)):
        with pytest.raises(ValueError, match="are not inside the 64 bytes"):
            Span(A, offset, length)


def test_an_address_is_a_number_or_a_hole_with_an_offset() -> None:
    assert B.span(8).address == 0x7000_0008
    assert A.span(8).address == Sym(Role.INPUT, 0, 8)
    with pytest.raises(ValueError, match=r"a block begins at in0\+8"):
        Block("cpu", Sym(Role.INPUT, 0, 8), 4)


def test_copies_are_of_one_length_and_apart() -> None:
    with pytest.raises(ValueError, match="a copy of 32 bytes into 64 bytes"):
        Copy(A.span(), B.span(0, 32))
    with pytest.raises(ValueError, match="overlapping"):
        Copy(B.span(0, 64), B.span(63, 64))
    Copy(B.span(0, 64), B.span(64, 64))
    Copy(B.span(0, 0), B.span(0, 0))


def test_words_have_their_sizes() -> None:
    with pytest.raises(ValueError, match="32 or 64 bits"):
        Write(B.span(0, 2), 1, 16)
    with pytest.raises(ValueError, match="32 or 64 bits"):
        Write(B.span(0, 8), 1, 32)
    with pytest.raises(ValueError, match="8 bytes"):
        Poll(B.span(0, 4), 1)


def test_accesses_are_found_for_every_command() -> None:
    copy = Copy(A.span(), B.span(0, 64))
    assert accesses(copy) == ((B.span(0, 64),), (A.span(),))
    assert accesses(Exec("f", (), (A.span(),), (B.span(),))) == ((A.span(),), (B.span(),))
    assert accesses(Wait(0, 1)) == ((), ())
    assert accesses(Timestamp(B.span(0, 8))) == ((), (B.span(0, 8),))


def test_the_listing_is_stable() -> None:
    text = listing(
        [
            Wait(1, Sym(Role.TICK, 1, 2)),
            Exec("f", (A.span(), 3, Sym(Role.SCALAR, 0)), (A.span(),), (B.span(0, 64),)),
            Copy(B.span(64, 64), A.span()),
            Barrier(),
            Timestamp(B.span(0, 8)),
            Write(B.span(0, 4), 5, 32),
            Poll(B.span(0, 8), 1, 255),
            Host("callback"),
            Signal(0, 7),
        ]
    )
    assert text == (
        "  0  WAIT lane=1 tick=tick1+2\n"
        "  1  EXEC f arguments=(cpu:in0[0:64], 3, scalar0) reads=(cpu:in0[0:64]) "
        "writes=(cpu:1:0x70000000[0:64])\n"
        "  2  COPY target=cpu:1:0x70000000[64:128] source=cpu:in0[0:64]\n"
        "  3  BARRIER\n"
        "  4  TIMESTAMP target=cpu:1:0x70000000[0:8]\n"
        "  5  WRITE target=cpu:1:0x70000000[0:4] value=5 bits=32\n"
        "  6  POLL source=cpu:1:0x70000000[0:8] expected=1 mask=255\n"
        "  7  HOST callback\n"
        "  8  SIGNAL lane=0 tick=7"
    )
