"""Clusters: nodes that share a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from fgrad.lower.contract import Contraction
from fgrad.uop.node import UOp


class ClusterKind(Enum):
    """What computes a cluster."""

    ROW = "row"
    CONTRACT = "contract"
    OPAQUE = "opaque"


@dataclass(slots=True, eq=False)
class Cluster:
    """Nodes computed together. `reduced`: positions of R in `shape`; None while undecided."""

    kind: ClusterKind
    stage: int
    shape: tuple[int, ...]
    reduced: tuple[int, ...] | None = None
    nodes: list[UOp] = field(default_factory=list)
    size: int = 0
    contraction: Contraction | None = None
    moved: bool = False  # a contraction whose epilogue has the layout of a permuted view of it
    parent: Cluster | None = None


@dataclass(slots=True, eq=False)
class Partition:
    """Clusters in an order that can run, and which nodes are stored. `order`: position of every
    node.
    """

    clusters: list[Cluster]
    of: dict[UOp, Cluster]
    stored: set[UOp]
    order: dict[UOp, int]


def find(c: Cluster) -> Cluster:
    """The cluster that `c` was merged into."""
    root = c
    while root.parent is not None:
        root = root.parent
    while c.parent is not None:
        c.parent, c = root, c.parent
    return root


def merge(a: Cluster, b: Cluster) -> Cluster:
    """One cluster of two; keeps the later stage."""
    a, b = find(a), find(b)
    if a is b:
        return a
    if len(a.nodes) < len(b.nodes):
        a, b = b, a
    a.nodes += b.nodes
    a.size += b.size
    a.stage = max(a.stage, b.stage)
    b.parent = a
    if a.reduced is None:
        a.reduced = b.reduced
    return a
