"""Schedules: functions from the number of steps taken to a number such as the learning rate.

Results are weak floats: they do not widen the dtype of what they are multiplied with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fgrad.errors import ArgumentError, note_user_line
from fgrad.run.eager import public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import add, div, maximum, minimum, mul, sub, where
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

Schedule = Callable[[Any], Any]


def _step(count: ArrayLike) -> UOp:
    """The count as a default float."""
    return cast_node(count, dt.default_float())


def _numbers(*values: ArrayLike) -> list[UOp]:
    return [cast_node(v, dt.default_float()) for v in values]


def constant_schedule(value: float) -> Schedule:
    """Always `value`.

    >>> constant_schedule(0.1)(1000)
    0.1
    """
    return lambda count: value


@public()
def _polynomial(
    count: ArrayLike,
    start: ArrayLike,
    end: ArrayLike,
    power: ArrayLike,
    steps: ArrayLike,
    begin: ArrayLike,
) -> Array:
    first, last, exponent, n, at = _numbers(start, end, power, steps, begin)
    passed = minimum(maximum(sub(_step(count), at), 0), n)
    left = sub(1, div(passed, n))
    return Tracer(add(mul(sub(first, last), uop(Op.POW, (left, exponent))), last), True)


def polynomial_schedule(
    init_value: float,
    end_value: float,
    power: float,
    transition_steps: int,
    transition_begin: int = 0,
) -> Schedule:
    """From init_value to end_value within `transition_steps`, as a power of what is left.

    transition_begin   the step at which it leaves init_value; after transition_steps more it stays at end_value

    >>> polynomial_schedule(1.0, 0.0, 2, 4)(2)
    Array(0.25, dtype=float32, weak_type=True)
    """
    if transition_steps <= 0:
        return constant_schedule(init_value)
    steps, begin = float(transition_steps), float(max(transition_begin, 0))
    return lambda count: _polynomial(count, init_value, end_value, power, steps, begin)


def linear_schedule(init_value: float, end_value: float, transition_steps: int, transition_begin: int = 0) -> Schedule:
    """From init_value to end_value in a straight line, then constant.

    transition_steps, transition_begin   as in `polynomial_schedule`

    >>> linear_schedule(1.0, 0.0, 4)(1)
    Array(0.75, dtype=float32, weak_type=True)
    """
    return polynomial_schedule(init_value, end_value, 1.0, transition_steps, transition_begin)


@public()
def _cosine(count: ArrayLike, start: ArrayLike, steps: ArrayLike, alpha: ArrayLike, exponent: ArrayLike) -> Array:
    value, n, floor, power = _numbers(start, steps, alpha, exponent)
    passed = minimum(_step(count), n)
    wave = mul(add(build.cos(mul(div(passed, n), math.pi)), 1), 0.5)
    wave = uop(Op.POW, (maximum(wave, 0), power))
    return Tracer(mul(value, add(mul(wave, sub(1, floor)), floor)), True)


def cosine_decay_schedule(init_value: float, decay_steps: int, alpha: float = 0.0, exponent: float = 1.0) -> Schedule:
    """From init_value to alpha * init_value along half a cosine wave.

    exponent   of the wave; after decay_steps it stays where it is

    Raises ArgumentError unless decay_steps is positive.

    >>> cosine_decay_schedule(1.0, 10)(10)
    Array(0., dtype=float32, weak_type=True)
    """
    if not decay_steps > 0:
        raise note_user_line(ArgumentError(f"cosine_decay_schedule needs decay_steps above 0, got {decay_steps}"))
    return lambda count: _cosine(count, init_value, float(decay_steps), alpha, exponent)


@public(static=("staircase", "has_end", "falls"))
def _exponential(
    count: ArrayLike,
    start: ArrayLike,
    steps: ArrayLike,
    rate: ArrayLike,
    begin: ArrayLike,
    end: ArrayLike,
    staircase: bool,
    has_end: bool,
    falls: bool,
) -> Array:
    value, n, base, at, bound = _numbers(start, steps, rate, begin, end)
    passed = sub(_step(count), at)
    exponent = div(passed, n)
    if staircase:
        exponent = build.floor(exponent)
    out = where(build.le(passed, 0), value, mul(value, uop(Op.POW, (base, exponent))))
    if has_end:
        out = maximum(out, bound) if falls else minimum(out, bound)
    return Tracer(out, True)


def exponential_decay(
    init_value: float,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> Schedule:
    """init_value * decay_rate ** (count / transition_steps); `staircase` rounds the exponent down.

    transition_begin   the step at which it leaves init_value
    end_value          is not crossed

    >>> exponential_decay(1.0, 2, 0.5)(4)
    Array(0.25, dtype=float32, weak_type=True)
    """
    if transition_steps <= 0 or decay_rate == 0:
        return constant_schedule(init_value)
    end = 0.0 if end_value is None else end_value
    return lambda count: _exponential(
        count, init_value, float(transition_steps), decay_rate, float(transition_begin), end, staircase,
        end_value is not None, decay_rate < 1,
    )  # fmt: skip


@public()
def _switched(count: ArrayLike, values: list[ArrayLike], boundaries: list[ArrayLike]) -> Array:
    node = cast_node(count, dt.int64)
    numbers = _numbers(*values)
    out = numbers[0]
    for value, boundary in zip(numbers[1:], boundaries, strict=True):
        out = where(build.le(cast_node(boundary, dt.int64), node), value, out)
    return Tracer(out, True)


def piecewise_constant_schedule(
    init_value: float, boundaries_and_scales: Mapping[int, float] | None = None
) -> Schedule:
    """init_value, multiplied by a factor from every boundary on: {boundary: factor}.

    >>> piecewise_constant_schedule(1.0, {3: 0.1})(4)
    Array(0.1, dtype=float32, weak_type=True)
    """
    table = sorted((boundaries_and_scales or {}).items())
    values, value = [init_value], init_value
    for _, factor in table:
        value = value * factor
        values.append(value)
    # as with join_schedules, the boundary itself belongs to what comes after, from the step past it
    return lambda count: _switched(count, values, [b + 1 for b, _ in table])


def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """One schedule after the other: number i + 1 begins, counting from 0, at step boundaries[i].

    Raises ArgumentError unless there is one boundary less than schedules.

    >>> schedule = join_schedules([constant_schedule(0.1), constant_schedule(0.2)], [5])
    >>> schedule(4), schedule(5)
    (Array(0.1, dtype=float32, weak_type=True), Array(0.2, dtype=float32, weak_type=True))
    """
    if len(boundaries) != len(schedules) - 1:
        raise note_user_line(
            ArgumentError(f"join_schedules of {len(schedules)} schedules needs {len(schedules) - 1} boundaries")
        )
    starts = [0, *boundaries]

    def schedule(count: Any) -> Array:
        values = [s(_since(count, b)) for s, b in zip(schedules, starts, strict=True)]
        return _switched(count, values, list(boundaries))

    return schedule


@public()
def _since(count: ArrayLike, start: ArrayLike) -> Array:
    node = lift(count).node
    return Tracer(sub(node, cast_node(start, node.dtype)))


def warmup_cosine_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    decay_steps: int,
    end_value: float = 0.0,
    exponent: float = 1.0,
) -> Schedule:
    """Linear from init_value to peak_value, then half a cosine wave down to end_value at step `decay_steps`.

    Raises ArgumentError unless decay_steps, which counts the warmup too, is larger than warmup_steps.

    >>> warmup_cosine_decay_schedule(0.0, 1.0, 5, 10)(5)
    Array(1., dtype=float32, weak_type=True)
    """
    if not decay_steps > warmup_steps:
        raise note_user_line(
            ArgumentError(f"decay_steps ({decay_steps}) counts the warmup too and must be above it ({warmup_steps})")
        )
    alpha = end_value / peak_value if peak_value else 0.0
    return join_schedules(
        [
            linear_schedule(init_value, peak_value, warmup_steps),
            cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha, exponent),
        ],
        [warmup_steps],
    )


def warmup_constant_schedule(init_value: float, peak_value: float, warmup_steps: int) -> Schedule:
    """Linear from init_value to peak_value, then constant.

    >>> warmup_constant_schedule(0.0, 1.0, 4)(2)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return linear_schedule(init_value, peak_value, warmup_steps)


def warmup_exponential_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> Schedule:
    """Linear from init_value to peak_value, then exponential.

    Arguments after the warmup as in `exponential_decay`.

    >>> warmup_exponential_decay_schedule(0.0, 1.0, 4, 2, 0.5)(6)
    Array(0.5, dtype=float32, weak_type=True)
    """
    decay = exponential_decay(peak_value, transition_steps, decay_rate, transition_begin, staircase, end_value)
    return join_schedules([linear_schedule(init_value, peak_value, warmup_steps), decay], [warmup_steps])


__all__ = [
    "constant_schedule", "cosine_decay_schedule", "exponential_decay", "join_schedules", "linear_schedule",
    "piecewise_constant_schedule", "polynomial_schedule", "warmup_constant_schedule",
    "warmup_cosine_decay_schedule", "warmup_exponential_decay_schedule",
]  # fmt: skip
