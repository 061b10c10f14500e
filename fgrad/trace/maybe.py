"""Arithmetic on values that may be exact zeros, written None: nothing is built for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from fgrad.uop.build import add, const, mul, neg, where, zeros_like
from fgrad.uop.node import UOp

Maybe = UOp | None
T = TypeVar("T")


def instantiate(t: Maybe, like: UOp) -> UOp:
    """`t`, or zeros shaped as `like`."""
    return zeros_like(like) if t is None else t


def add_(x: Maybe, y: Maybe) -> Maybe:
    return y if x is None else x if y is None else add(x, y)


def mul_(x: Maybe, y: Maybe) -> Maybe:
    return None if x is None or y is None else mul(x, y)


def neg_(x: Maybe) -> Maybe:
    return None if x is None else neg(x)


def where_(c: UOp, x: Maybe, y: Maybe) -> Maybe:
    """x where `c`, else y; a missing side is filled with zeros of the other's dtype."""
    some = y if x is None else x
    if some is None:
        return None
    zero = const(0, some.dtype, some.shape)
    return where(c, zero if x is None else x, zero if y is None else y)


def present(xs: Iterable[T | None]) -> list[T]:
    """Those that are there."""
    return [x for x in xs if x is not None]


def pick(xs: Iterable[T], flags: Iterable[bool], want: bool = True) -> list[T]:
    """The members whose flag is `want`."""
    return [x for x, m in zip(xs, flags, strict=True) if bool(m) is want]


def deal(xs: Iterable[T], flags: Sequence[bool]) -> list[T | None]:
    """Members one by one at the flagged places, None elsewhere: undoes `pick`."""
    it = iter(xs)
    return [next(it) if m else None for m in flags]


def merge(flags: Sequence[bool], yes: Iterable[T], no: Iterable[T]) -> list[T]:
    """Members of `yes` where flagged, else of `no`, each in order."""
    a, b = iter(yes), iter(no)
    return [next(a) if m else next(b) for m in flags]
