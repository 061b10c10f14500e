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
    """Gradient descent, with `momentum` (heavy ball, or Nesterov's) if it is given.

    learning_rate       a number, or a schedule: a function of the count of steps
    momentum            how much of the last step is kept, in 0..1
    nesterov            look ahead: the step after this one's momentum
    accumulator_dtype   of the momentum; that of the parameters by default

    >>> optimizer = sgd(0.5)
    >>> params = {"w": fnp.array([1.0, 2.0])}
    >>> state = optimizer.init(params)
    >>> grads = grad(lambda p: (p["w"] ** 2).sum())(params)
    >>> updates, state = optimizer.update(grads, state, params)
    >>> apply_updates(params, updates)
    {'w': Array([0., 0.], dtype=float32)}
    """
    inner = identity() if momentum is None else trace(momentum, nesterov, accumulator_dtype)
    return chain(inner, scale_by_learning_rate(learning_rate))


def momentum(learning_rate: ScalarOrSchedule, momentum: float = 0.9, nesterov: bool = False) -> GradientTransformation:
    """Gradient descent with momentum.

    Arguments as in `sgd`.

    >>> momentum(0.1).init(fnp.zeros(2))[0]
    TraceState(trace=Array([0., 0.], dtype=float32))
    """
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
    """Adam (Kingma, Ba 2014); `nesterov` makes it NAdam.

    b1, b2     how much of the running means of gradients and of their squares is kept
    eps        is added to the root in the divisor, eps_root to what it is taken of
    mu_dtype   of the running mean of gradients; that of the parameters by default

    >>> optimizer = adam(0.1)
    >>> updates, _ = optimizer.update(fnp.array([2.0, -3.0]), optimizer.init(fnp.zeros(2)))
    >>> fnp.round(updates, 3)
    Array([-0.1,  0.1], dtype=float32)
    """
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
    """Adam with weight decay apart from the gradient (Loshchilov, Hutter 2017); `mask` says which parameters decay.

    weight_decay   this part of the parameters is taken off, times the learning rate
    mask           a tree of bools, or a function that makes one of the parameters: which of them decay

    Other arguments as in `adam`. `update` needs the parameters.

    >>> optimizer = adamw(0.1, weight_decay=0.5)
    >>> params = fnp.array([2.0])
    >>> updates, _ = optimizer.update(fnp.array([0.0]), optimizer.init(params), params)
    >>> updates
    Array([-0.1], dtype=float32)
    """
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
    """Divides by the running root mean square (`centered`: standard deviation), then momentum if it is given.

    decay           how much of the running mean of squares is kept
    initial_scale   of that mean, at first
    eps_in_sqrt     `eps` is added below the root, and not to it

    >>> optimizer = rmsprop(0.1)
    >>> fnp.round(optimizer.update(fnp.array([4.0]), optimizer.init(fnp.zeros(1)))[0], 3)
    Array([-0.316], dtype=float32)
    """
    by = scale_by_stddev if centered else scale_by_rms
    return chain(
        by(decay, eps, initial_scale, eps_in_sqrt),
        scale_by_learning_rate(learning_rate),
        identity() if momentum is None else trace(momentum, nesterov),
    )


def adagrad(
    learning_rate: ScalarOrSchedule, initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> GradientTransformation:
    """Divides by the root of the sum of all squares so far.

    initial_accumulator_value   of the sum of squares

    >>> optimizer = adagrad(0.1, initial_accumulator_value=0.0)
    >>> fnp.round(optimizer.update(fnp.array([4.0]), optimizer.init(fnp.zeros(1)))[0], 3)
    Array([-0.1], dtype=float32)
    """
    return chain(scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate))


def lion(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.99,
    mu_dtype: Any = None,
    weight_decay: float = 1e-3,
    mask: Any = None,
) -> GradientTransformation:
    """Steps of one size in the direction of the sign of blended gradients, with weight decay.

    b1    blends the gradient into the running one for the step, b2 for what is kept

    `weight_decay` and `mask` as in `adamw`; `update` needs the parameters. Chen and others (2023).

    >>> optimizer = lion(0.1, weight_decay=0.0)
    >>> params = fnp.zeros(2)
    >>> optimizer.update(fnp.array([4.0, -0.01]), optimizer.init(params), params)[0]
    Array([-0.1,  0.1], dtype=float32)
    """
    return chain(
        scale_by_lion(b1, b2, mu_dtype),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


__all__ = ["adagrad", "adam", "adamw", "lion", "momentum", "rmsprop", "sgd"]
