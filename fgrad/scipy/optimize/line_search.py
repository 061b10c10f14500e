"""A step along a direction that meets the strong Wolfe conditions.

Source: J. Nocedal, S. Wright, Numerical Optimization, 2nd edition, algorithms 3.5 and 3.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fgrad import numpy as fnp
from fgrad.lax.loops import while_loop

_DECREASE = 1e-4  # of the slope at 0, the least mean decrease: Nocedal and Wright's usual c1
_CURVATURE = 0.9  # and c2, for quasi-Newton directions


class Step(NamedTuple):
    """Where a search ended: step size, value, slope, gradient; whether the conditions hold; evaluations."""

    size: Any
    value: Any
    gradient: Any
    found: Any
    evaluations: Any


class _State(NamedTuple):
    """The search as one loop: growing the step until it brackets a minimum, then closing the bracket.

    low, high      step sizes of the bracket, low the one with the smaller value; their values and slopes
    trial          the next step size
    """

    bracketed: Any
    low: Any
    low_value: Any
    low_slope: Any
    high: Any
    high_value: Any
    high_slope: Any
    trial: Any
    best: Step
    done: Any
    count: Any


def _between(s: _State) -> Any:
    """The minimum of the cubic through both ends, kept away from them; else the middle."""
    width = s.high - s.low
    safe = fnp.where(width == 0, 1, width)
    d1 = s.low_slope + s.high_slope - 3 * (s.low_value - s.high_value) / -safe
    square = d1 * d1 - s.low_slope * s.high_slope
    root = fnp.sign(safe) * fnp.sqrt(fnp.maximum(square, 0))
    below = s.high_slope - s.low_slope + 2 * root
    guess = s.high - safe * (s.high_slope + root - d1) / fnp.where(below == 0, 1, below)
    near, far = s.low + 0.1 * width, s.high - 0.1 * width
    inside = (guess >= fnp.minimum(near, far)) & (guess <= fnp.maximum(near, far))
    usable = (square >= 0) & (below != 0) & inside
    return fnp.where(usable, guess, s.low + 0.5 * width)


def search(
    value_and_slope: Callable[[Any], tuple[Any, Any, Any]],
    value: Any,
    slope: Any,
    gradient: Any,
    first: Any,
    maxiter: int,
) -> Step:
    """The step that meets the strong Wolfe conditions along a direction.

    value_and_slope   step size -> (value, slope, gradient)
    value, slope, gradient   those of step size 0; the slope is negative
    first             the first step size to try

    Where it does not end within `maxiter` evaluations the smallest value seen counts, with `found` False.
    """
    zero = fnp.zeros_like(first)
    start = _State(
        fnp.asarray(False), zero, value, slope, zero, value, slope, first,
        Step(zero, value, gradient, fnp.asarray(False), 0), fnp.asarray(False), 0,
    )  # fmt: skip

    def step(s: _State) -> _State:
        at = s.trial
        new, new_slope, new_gradient = value_and_slope(at)
        bad = ~fnp.isfinite(new)
        too_high = bad | (new > value + _DECREASE * at * slope) | (new >= s.low_value)
        done = ~too_high & (fnp.abs(new_slope) <= -_CURVATURE * slope)
        ends = new_slope * fnp.where(s.bracketed, s.high - s.low, 1) >= 0  # the minimum lies back towards low
        # the new high end: the trial itself, the old low end when the slope turned, else as before
        takes_trial = too_high
        takes_low = ~too_high & ends
        high_value = fnp.where(bad, fnp.abs(value) + 1e3 * (1 + fnp.abs(slope * at)), new)
        high = [
            fnp.where(takes_trial, t, fnp.where(takes_low, low, old))
            for t, low, old in (
                (at, s.low, s.high),
                (high_value, s.low_value, s.high_value),
                (fnp.where(bad, fnp.abs(slope), new_slope), s.low_slope, s.high_slope),
            )
        ]
        low = [fnp.where(too_high, o, t) for o, t in ((s.low, at), (s.low_value, new), (s.low_slope, new_slope))]
        bracketed = s.bracketed | too_high | ends
        best = s.best
        better = done | (~bad & (new < best.value))
        kept = Step(
            fnp.where(better, at, best.size), fnp.where(better, new, best.value),
            fnp.where(better, new_gradient, best.gradient), done, s.count + 1,
        )  # fmt: skip
        closer = s._replace(
            bracketed=bracketed, low=low[0], low_value=low[1], low_slope=low[2],
            high=high[0], high_value=high[1], high_slope=high[2], best=kept, done=done, count=s.count + 1,
        )  # fmt: skip
        return closer._replace(trial=fnp.where(bracketed, _between(closer), 2 * at))

    end = while_loop(lambda s: ~s.done & (s.count < maxiter), step, start)
    return end.best


__all__ = ["Step", "search"]
