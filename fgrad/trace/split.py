"""split: makes every call purely primal or purely linear, between jvp and transposition.

A row is asked only about nodes that have a linear source. It receives the node and which sources
are linear, and returns (members, which of them are linear) with the node taken apart, or None: the
node is linear as a whole.
"""

from __future__ import annotations

from fgrad.trace import call, collective, control_split  # noqa: F401  rows of this table
from fgrad.trace.interpret import marked, split, split_rules
from fgrad.uop.op import CALLS, Op

__all__ = ["marked", "split", "split_rules"]

_WHOLE = tuple(op for op in Op if op not in (*CALLS, Op.TUPLE, Op.COPY, Op.COLLECTIVE))
split_rules(*_WHOLE)(lambda u, flags: None)
split_rules(Op.TUPLE)(lambda u, flags: (list(u.src), flags))
