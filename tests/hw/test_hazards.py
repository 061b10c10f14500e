"""The tracker of byte ranges, against a model that keeps the accesses of every single byte."""

from hypothesis import given
from hypothesis import strategies as st

from fgrad.hw.command import Block
from fgrad.hw.hazards import Hazards

BLOCKS = [Block("cpu", 4096 * (i + 1), 40) for i in range(3)]
spans = st.builds(
    lambda block, a, b: BLOCKS[block].span(min(a, b), abs(a - b)),
    st.integers(0, 2),
    st.integers(0, 40),
    st.integers(0, 40),
)
programs = st.lists(st.tuples(st.lists(spans, max_size=3), st.lists(spans, max_size=2)))


class Bytes:
    """The model."""

    def __init__(self) -> None:
        self.writer: dict = {}
        self.readers: dict = {}

    @staticmethod
    def of(listed):
        return {(s.block.base, i) for s in listed for i in range(s.offset, s.offset + s.length)}

    def access(self, number, reads, writes):
        reads, writes = self.of(reads), self.of(writes)
        found = {self.writer[b] for b in reads | writes if b in self.writer}
        for b in writes:
            found |= self.readers.get(b, set())
        for b in reads:
            self.readers.setdefault(b, set()).add(number)
        for b in writes:
            self.writer[b], self.readers[b] = number, set()
        return found - {number}

    def last(self, listed):
        found = set()
        for b in self.of(listed):
            found |= self.readers.get(b, set()) | ({self.writer[b]} if b in self.writer else set())
        return found


@given(programs)
def test_dependencies_are_those_of_the_bytes(program) -> None:
    hazards, model = Hazards(), Bytes()
    for number, (reads, writes) in enumerate(program):
        assert hazards.access(number, reads, writes) == model.access(number, reads, writes)
    for block in BLOCKS:
        assert hazards.last([block.span()]) == model.last([block.span()])
        assert hazards.last([block.span(7, 9)]) == model.last([block.span(7, 9)])


def test_a_partial_write_keeps_older_accesses_of_the_other_bytes() -> None:
    block = BLOCKS[0]
    hazards = Hazards()
    hazards.access(0, [], [block.span()])
    hazards.access(1, [block.span(0, 20)], [])
    assert hazards.access(2, [], [block.span(10, 20)]) == {0, 1}
    assert hazards.access(3, [block.span(0, 10)], []) == {0}
    assert hazards.access(4, [block.span(12, 2)], []) == {2}
    assert hazards.access(5, [], [block.span()]) == {0, 1, 2, 3, 4}
    assert hazards.access(6, [], [block.span(39, 1)]) == {5}
