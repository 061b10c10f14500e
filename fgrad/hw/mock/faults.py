"""Faults: what goes wrong with a mock machine, on purpose."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Faults:
    """Things are counted from 0, over all processors, from when the machine or its count was made new.

    dropped_doorbells  these rings are never heard
    late_doorbells     ring -> heard after so many steps of the machine
    stuck_waits        these waits are never satisfied
    fault_at           this packet faults
    poison             fresh memory of devices is filled with 0xFF
    """

    dropped_doorbells: frozenset[int] = frozenset()
    late_doorbells: dict[int, int] = field(default_factory=dict)
    stuck_waits: frozenset[int] = frozenset()
    fault_at: int | None = None
    poison: bool = True
