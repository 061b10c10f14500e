"""Ready-made optimizers: chains of transformations that end in a step downhill.

    opt = adam(1e-3)
    state = opt.init(params)
    updates, state = opt.update(grads, state, params)
    params = apply_updates(params, updates)

`learning_rate` is a number or a schedule.
"""

from __future__ import annotations

from typing import Any

from fgrad.optim.clipping import add_decayed_weights
from fgrad.optim.moments import (
    scale_by_adam,
    scale_by_lion,
    scale_by_rms,
    scale_by_rss,
    scale_by_stddev,
    trace,
)  # fmt: skip
from fgrad.optim.transformation import (
    GradientTransformation,
    ScalarOrSchedule,
    chain,
    identity,
    scale_by_learning_rate,
)  # fmt: skip


def sgd(
    learning_rate: ScalarOrSchedule,
    momentum: float | None = None,
    nesterov: bool = False,
    accumulator_dtype: Any = None,
) -> GradientTransformation:
    """Gradient descent, with `momentum` (heavy ball, or Nesterov's) if it is given."""
    inner = identity() if momentum is None else trace(momentum, nesterov, accumulator_dtype)
    return chain(inner, scale_by_learning_rate(learning_rate))


def momentum(learning_rate: ScalarOrSchedule, momentum: float = 0.9, nesterov: bool = False) -> GradientTransformation:
    """Gradient descent with momentum."""
    return sgd(learning_rate, momentum, nesterov)


def adam(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Adam (Kingma, Ba 2014); `nesterov` makes it NAdam."""
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scale_by_learning_rate(learning_rate),
    )


def adamw(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    weight_decay: float = 1e-4,
    mask: Any = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Adam with weight decay apart from the gradient (Loshchilov, Hutter 2017); `mask` says which parameters decay."""
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def rmsprop(
    learning_rate: ScalarOrSchedule,
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: float | None = None,
    nesterov: bool = False,
) -> GradientTransformation:
    """Divides by the running root mean square (`centered`: standard deviation), then momentum if it is given."""
    by = scale_by_stddev if centered else scale_by_rms
    return chain(
        by(decay, eps, initial_scale, eps_in_sqrt),
        scale_by_learning_rate(learning_rate),
        identity() if momentum is None else trace(momentum, nesterov),
    )


def adagrad(
    learning_rate: ScalarOrSchedule, initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> GradientTransformation:
    """Divides by the root of the sum of all squares so far."""
    return chain(scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate))


def lion(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.99,
    mu_dtype: Any = None,
    weight_decay: float = 1e-3,
    mask: Any = None,
) -> GradientTransformation:
    """Steps of one size in the direction of the sign of blended gradients, with weight decay."""
    return chain(
        scale_by_lion(b1, b2, mu_dtype),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


__all__ = ["adagrad", "adam", "adamw", "lion", "momentum", "rmsprop", "sgd"]
