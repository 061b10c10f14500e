"""Meta-learning: find parameters from which one gradient step on ten points fits a new sine wave.

    python examples/maml.py            # about half a minute
    python examples/maml.py --quick    # a few steps, to see that everything runs

Amplitude and phase of the wave differ from task to task. The outer gradient goes through the inner gradient steps
(`grad` inside `grad`), and `vmap` runs the tasks side by side. Compared with the same network trained on all tasks at
once, which can learn no more than their average.

After C. Finn, P. Abbeel, S. Levine, "Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks", 2017.
"""

import argparse
import sys

import numpy as np

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import grad, jit, lax, optim, random, tree, value_and_grad, vmap

TASKS, POINTS, RATE = 25, 10, 0.02


def init(key):
    sizes = (1, 64, 64, 1)
    return [
        {"w": random.normal(k, (m, n)) * (1.5 / m) ** 0.5, "b": 0.1 * random.normal(random.fold_in(k, 1), (n,))}
        for k, m, n in zip(random.split(key, 3), sizes[:-1], sizes[1:], strict=True)
    ]


def net(params, x):
    """f32[n, 1] -> f32[n, 1]."""
    for layer in params[:-1]:
        x = fnp.tanh(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def task(key):
    """One wave -> points to adapt to, points to be judged by; x and y f32[POINTS, 1] each."""
    k_size, k_phase, k_x = random.split(key, 3)
    size = random.uniform(k_size, minval=0.1, maxval=5.0)
    phase = random.uniform(k_phase, maxval=np.pi)
    x = random.uniform(k_x, (2, POINTS, 1), minval=-5.0, maxval=5.0)
    y = size * fnp.sin(x + phase)
    return (x[0], y[0]), (x[1], y[1])


def loss(params, points):
    x, y = points
    return fnp.mean((net(params, x) - y) ** 2)


def adapt(params, points, steps):
    """Gradient steps on the points of one task."""

    def step(params, _):
        slope = grad(loss)(params, points)
        return tree.map(lambda p, g: p - RATE * g, params, slope), None

    return lax.scan(step, params, length=steps)[0]


def meta_loss(params, key):
    """What remains after one inner step, on other points of the same wave; mean over tasks."""
    support, query = vmap(task)(random.split(key, TASKS))
    return fnp.mean(vmap(lambda s, q: loss(adapt(params, s, 1), q))(support, query))


def joint_loss(params, key):
    """Without adaptation: one function for all waves."""
    _, query = vmap(task)(random.split(key, TASKS))
    return fnp.mean(vmap(lambda q: loss(params, q))(query))


def train(name, objective, params, steps, report):
    adam = optim.chain(optim.clip_by_global_norm(10.0), optim.adam(optim.cosine_decay_schedule(2e-3, steps)))

    @jit
    def many(params, state, keys):
        def step(carry, key):
            params, state = carry
            value, slope = value_and_grad(objective)(params, key)
            updates, state = adam.update(slope, state, params)
            return (optim.apply_updates(params, updates), state), value

        (params, state), values = lax.scan(step, (params, state), keys)
        return params, state, fnp.mean(values)

    state = adam.init(params)
    for i, keys in enumerate(random.split(random.key(1), (steps // report, report))):
        params, state, value = many(params, state, keys)
        print(f"{name}   step {(i + 1) * report:5}   loss {float(value):.3f}", flush=True)
    return params


@jit
def judge(params, key):
    """Mean squared error on 600 new waves after 0, 1 and 10 inner steps."""

    def one(key):
        support, query = task(key)
        return fnp.stack([loss(adapt(params, support, n), query) for n in (0, 1, 10)])

    return fnp.mean(vmap(one)(random.split(key, 600)), axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few steps only")
    args = parser.parse_args()
    steps, report = (400, 200) if args.quick else (8000, 1000)
    print(f"fgrad {fg.__version__}, {TASKS} waves per step, {POINTS} points of each")
    start = init(random.key(0))
    errors = {}
    for name, objective in (("meta ", meta_loss), ("joint", joint_loss)):
        params = train(name, objective, start, steps, report)
        errors[name] = np.asarray(judge(params, random.key(2)))
    for name, e in errors.items():
        print(f"{name}   error on new waves: {e[0]:.3f} as it is, {e[1]:.3f} after 1 step, {e[2]:.3f} after 10 steps")
    meta, joint = errors["meta "], errors["joint"]
    if meta[1] > 0.8 * joint[1] or (not args.quick and (meta[1] > 1.2 or meta[2] > 0.5 * joint[2])):
        sys.exit("meta-learning does not help")


if __name__ == "__main__":
    main()
