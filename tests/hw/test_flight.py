"""What is in flight: handed back in order, failures told once."""

import pytest

from fgrad.errors import CancelledError, DeviceError, ForkedDeviceError
from fgrad.hw.flight import Flight, InFlight
from fgrad.hw.timeline import HostTimeline


class Airport:
    """A timeline with flights whose errors are set by the test."""

    def __init__(self) -> None:
        self.timeline = HostTimeline("test")
        self.in_flight = InFlight(self.timeline)
        self.finished: list[str] = []

    def fly(self, name: str, error: Exception | None = None) -> Flight:
        flight = Flight(self.timeline.issue(), name, lambda _: error, lambda: self.finished.append(name), 2.0)
        self.in_flight.begin(flight)
        return flight


@pytest.fixture
def airport() -> Airport:
    return Airport()


def test_what_is_finished_is_handed_back_once_and_in_order(airport: Airport) -> None:
    for name in "abc":
        airport.fly(name)
    assert airport.in_flight.names() == ["a", "b", "c"] and airport.in_flight.last == 3
    assert airport.in_flight.work_ms() == 6.0
    airport.timeline.complete(2)
    airport.in_flight.retire()
    airport.in_flight.retire()
    assert airport.finished == ["a", "b"] and airport.in_flight
    airport.timeline.complete(3)
    airport.in_flight.retire()
    assert airport.finished == ["a", "b", "c"]
    assert not airport.in_flight and airport.in_flight.last == 0


def test_failures_are_raised_once_the_first_with_the_others_in_its_notes(airport: Airport) -> None:
    airport.fly("a", DeviceError("a failed"))
    airport.fly("b")
    airport.fly("c", CancelledError("c was cancelled"))
    airport.timeline.complete(3)
    airport.in_flight.retire()
    assert airport.in_flight, "there is something to tell"
    with pytest.raises(DeviceError, match="a failed") as caught:
        airport.in_flight.raise_unseen()
    assert caught.value.__notes__ == ["also: CancelledError: c was cancelled"]
    airport.in_flight.raise_unseen()
    assert not airport.in_flight
    assert str(airport.in_flight.error(3)) == "c was cancelled"


def test_a_failure_told_elsewhere_is_not_raised(airport: Airport) -> None:
    for name in "abc":
        airport.fly(name, DeviceError(name))
    airport.timeline.complete(3)
    airport.in_flight.retire()
    airport.in_flight.mark_seen(3)
    airport.in_flight.mark_seen_up_to(1)
    with pytest.raises(DeviceError, match="^b$") as caught:
        airport.in_flight.raise_unseen()
    assert not hasattr(caught.value, "__notes__")


def test_a_flight_that_was_not_submitted_is_forgotten(airport: Airport) -> None:
    airport.in_flight.cancel(airport.fly("a"))
    assert not airport.in_flight and airport.finished == []


def test_a_child_forgets_everything_and_tells_what_it_lost(airport: Airport) -> None:
    for name in ("a", "b", "b"):
        airport.fly(name)
    airport.in_flight.forget(lambda tick: tick > 1, lambda names: ForkedDeviceError(names))
    assert airport.finished == []
    with pytest.raises(ForkedDeviceError, match="^b$"):
        airport.in_flight.raise_unseen()
    assert not airport.in_flight


def test_only_the_newest_failures_are_kept(airport: Airport) -> None:
    for i in range(1100):
        airport.fly(str(i), DeviceError(str(i)))
    airport.timeline.complete(1100)
    airport.in_flight.retire()
    assert airport.in_flight.error(1) is None
    assert str(airport.in_flight.error(1100)) == "1099"
    with pytest.raises(DeviceError) as caught:
        airport.in_flight.raise_unseen()
    assert str(caught.value) == "76"
    assert len(caught.value.__notes__) == 9 and caught.value.__notes__[-1] == "and 1015 more"
