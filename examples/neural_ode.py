"""A neural ordinary differential equation that learns how a pendulum with friction moves.

    python examples/neural_ode.py            # about half a minute
    python examples/neural_ode.py --quick    # a few steps, to see that everything runs

The equation's right-hand side is a network. The solver chooses its own steps (`while_loop`), and its derivative is the
continuous adjoint: a second equation that is solved backwards, given by `custom_vjp`, which needs no memory for the
steps. It is compared with the derivative through the steps of a fixed-step solver. The network sees noisy states 0.4 s
apart and is then asked for 8 s of motions it has not seen.

Solver: J. Dormand, P. Prince, "A family of embedded Runge-Kutta formulae", 1980. Adjoint: R. Chen, Y. Rubanova,
J. Bettencourt, D. Duvenaud, "Neural ordinary differential equations", 2018.
"""

import argparse
import sys
from functools import partial

import numpy as np

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import custom_vjp, grad, jit, lax, optim, random, tree, value_and_grad, vjp
from fgrad.flatten_util import ravel_pytree

GAP, TOLERANCE, BATCH = 0.4, 1e-4, 128
STAGES = np.array(
    [
        [0, 0, 0, 0, 0, 0],
        [1 / 5, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
)
FOURTH = np.array([5179 / 57600, 0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40])
ERROR = np.append(STAGES[6], 0.0) - FOURTH


def solve(f, y, duration):
    """y at `duration` of dy/dt = f(y), by steps of orders 5 and 4 whose difference is kept at TOLERANCE."""

    def combined(weights, slopes):
        return sum(float(w) * k for w, k in zip(weights, slopes, strict=False) if w)

    def step(state):
        t, y, h = state
        h = fnp.minimum(h, duration - t)
        slopes = []
        for row in STAGES:
            at = y + h * combined(row, slopes)
            slopes.append(f(at))
        scale = TOLERANCE * (1 + fnp.maximum(fnp.abs(y), fnp.abs(at)))
        error = fnp.sqrt(fnp.mean((h * combined(ERROR, slopes) / scale) ** 2))
        is_good = error <= 1
        factor = fnp.clip(0.9 * fnp.maximum(error, 1e-6) ** -0.2, 0.2, 5.0)
        return fnp.where(is_good, t + h, t), fnp.where(is_good, at, y), h * factor

    start = (fnp.zeros_like(duration), y, 0.2 * duration)
    return lax.while_loop(lambda s: s[0] < duration * (1 - 1e-6), step, start)[1]


@partial(custom_vjp, nondiff_argnums=(0,))
def odeint(f, params, y, duration):
    """y at `duration` of dy/dt = f(params, y); y may be a batch of states f32[n, d]."""
    return solve(lambda y: f(params, y), y, duration)


def forth(f, params, y, duration):
    end = odeint(f, params, y, duration)
    return end, (params, end, duration)


def back(f, kept, cotangent):
    """The state runs backwards, and beside it the cotangents of the state and of the parameters."""
    params, end, duration = kept
    state, as_parts = ravel_pytree((end, cotangent, tree.map(fnp.zeros_like, params)))

    def backwards(state):
        y, ct, _ = as_parts(state)
        slope, pull = vjp(f, params, y)
        to_params, to_y = pull(ct)
        return ravel_pytree((-slope, to_y, to_params))[0]

    _, to_y, to_params = as_parts(solve(backwards, state, duration))
    return to_params, to_y, fnp.sum(cotangent * f(params, end))


odeint.defvjp(forth, back)


def by_fixed_steps(f, params, y, duration, steps=20):
    """The classical method of order 4, to be differentiated step by step."""
    h = duration / steps

    def step(y, _):
        k1 = f(params, y)
        k2 = f(params, y + h / 2 * k1)
        k3 = f(params, y + h / 2 * k2)
        k4 = f(params, y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return lax.scan(step, y, length=steps)[0]


def pendulum(friction, y):
    """States (angle, speed) f32[..., 2] -> their change per second."""
    angle, speed = y[..., 0], y[..., 1]
    return fnp.stack([speed, -4 * fnp.sin(angle) - friction * speed], axis=-1)


def net(params, y):
    x = fnp.concatenate([fnp.sin(y[..., :1]), y], axis=-1)
    for layer in params[:-1]:
        x = fnp.tanh(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def init(key):
    sizes = (3, 32, 32, 2)
    return [
        {"w": random.normal(k, (m, n)) * m**-0.5, "b": fnp.zeros(n)}
        for k, m, n in zip(random.split(key, 3), sizes[:-1], sizes[1:], strict=True)
    ]


@partial(jit, static_argnums=(0, 3))
def motion(f, params, y, count):
    """States f32[count + 1, n, 2] at every GAP seconds from states y f32[n, 2]."""

    def step(y, _):
        return odeint(f, params, y, fnp.float32(GAP)), y

    end, states = lax.scan(step, y, length=count)
    return fnp.concatenate([states, end[None]])


def loss(params, here, there, solver=odeint):
    """Squared distance of where `here` leads to from `there`, both f32[n, 2]."""
    return fnp.mean((solver(net, params, here, fnp.float32(GAP)) - there) ** 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few steps only")
    args = parser.parse_args()
    steps, report, wanted = (200, 100, 1.0) if args.quick else (3000, 300, 0.15)
    k_start, k_noise, k_test, k_init, k_train = random.split(random.key(0), 5)
    low, high = fnp.array([-2.0, -2.0]), fnp.array([2.0, 2.0])  # it never turns over
    starts = random.uniform(k_start, (100, 2), minval=low, maxval=high)
    truth = motion(pendulum, 0.3, starts, 20)
    seen = truth + 0.02 * random.normal(k_noise, truth.shape)
    here, there = seen[:-1].reshape(-1, 2), seen[1:].reshape(-1, 2)
    print(f"fgrad {fg.__version__}, {len(here)} pairs of states {GAP} s apart")
    params = init(k_init)

    adjoint = grad(loss)(params, here[:BATCH], there[:BATCH])
    stepwise = grad(loss)(params, here[:BATCH], there[:BATCH], solver=by_fixed_steps)
    gap = optim.global_norm(tree.map(lambda a, b: a - b, adjoint, stepwise)) / optim.global_norm(stepwise)
    print(f"gradient by the adjoint and through the steps of a fixed-step solver: relative difference {float(gap):.1e}")

    adam = optim.adam(optim.cosine_decay_schedule(5e-3, steps))

    @jit
    def many(params, state, keys, here, there):
        def step(carry, key):
            params, state = carry
            rows = random.randint(key, (BATCH,), 0, len(here))
            value, slope = value_and_grad(loss)(params, here[rows], there[rows])
            updates, state = adam.update(slope, state, params)
            return (optim.apply_updates(params, updates), state), value

        (params, state), values = lax.scan(step, (params, state), keys)
        return params, state, fnp.mean(values)

    state = adam.init(params)
    for i, keys in enumerate(random.split(k_train, (steps // report, report))):
        params, state, value = many(params, state, keys, here, there)
        print(f"step {(i + 1) * report:5}   error after {GAP} s: {float(value) ** 0.5:.4f}", flush=True)
    starts = random.uniform(k_test, (200, 2), minval=low, maxval=high)
    foretold, truth = motion(net, params, starts, 20), motion(pendulum, 0.3, starts, 20)
    error = np.sqrt(np.mean(np.square(foretold - truth), axis=(1, 2)))
    print("new motions, error after " + ", ".join(f"{i * GAP:.1f} s: {error[i]:.4f}" for i in (1, 5, 10, 20)))
    if gap > 1e-2 or error.max() > wanted:
        sys.exit("the equation is not learned")


if __name__ == "__main__":
    main()
