"""Copies between devices that do not see each other's timelines go by the host."""

import pytest

from fgrad.hw.libc import raw_block, words
from fgrad.hw.transfer import copy


class Slow:
    """A device whose work appears when it is waited for."""

    def __init__(self, order: list[str], name: str) -> None:
        self.name = name
        self.order = order
        self.work: list[tuple[int, int]] = []

    def sync(self) -> None:
        self.order.append(self.name)
        for address, value in self.work:
            words(address)[0] = value
        self.work.clear()


@pytest.mark.parametrize("is_same", [False, True])
def test_the_host_waits_for_both_devices_and_copies(is_same: bool) -> None:
    order: list[str] = []
    source = Slow(order, "source")
    target = source if is_same else Slow(order, "target")
    a, b = raw_block(64), raw_block(64)
    source.work.append((a, 5))
    target.work.append((b + 8, 7))
    fence = copy(target, b, source, a, 16)
    assert fence.done()
    fence.wait()
    assert (words(b)[0], words(b)[1]) == (5, 0), "what the target did before was overwritten"
    assert order == (["source"] if is_same else ["source", "target"])


def test_an_empty_copy_does_nothing() -> None:
    device = Slow([], "x")
    assert copy(device, 0, device, 0, 0).done()
