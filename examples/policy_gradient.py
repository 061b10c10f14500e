"""Reinforcement learning: balance a pole on a cart by policy gradient.

    python examples/policy_gradient.py            # about half a minute
    python examples/policy_gradient.py --quick    # a few updates, to see that everything runs

The cart is simulated inside the compiled step: 64 carts side by side by `vmap`, 200 moments one after the other by
`scan`. The gradient is REINFORCE with the rewards still to come, and a learned value of the state is subtracted from
them to make it less noisy. A reward of 1 is paid for each moment that the pole stands; 200 is the most there is.

The cart is that of A. Barto, R. Sutton, C. Anderson, "Neuronlike adaptive elements that can solve difficult learning
control problems", 1983. The method: R. Williams, "Simple statistical gradient-following algorithms for connectionist
reinforcement learning", 1992.
"""

import argparse
import sys

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import grad, jit, lax, nn, optim, random, vmap

CARTS, MOMENTS, DISCOUNT = 64, 200, 0.98
GRAVITY, CART, POLE, HALF_LENGTH, FORCE, DT = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02  # metres, kilograms, seconds
MOST_AWAY, MOST_LEAN = 2.4, 12 * fnp.pi / 180


def push(state, right):
    """The state (position, speed, lean, its speed) a moment after a push to the left or to the right."""
    x, v, lean, turn = state
    force = fnp.where(right, FORCE, -FORCE)
    total = CART + POLE
    pushed = (force + POLE * HALF_LENGTH * turn**2 * fnp.sin(lean)) / total
    inertia = HALF_LENGTH * (4 / 3 - POLE * fnp.cos(lean) ** 2 / total)
    faster = (GRAVITY * fnp.sin(lean) - fnp.cos(lean) * pushed) / inertia
    away = pushed - POLE * HALF_LENGTH * faster * fnp.cos(lean) / total
    return fnp.stack([x + DT * v, v + DT * away, lean + DT * turn, turn + DT * faster])


def is_lost(state):
    return (fnp.abs(state[0]) > MOST_AWAY) | (fnp.abs(state[2]) > MOST_LEAN)


def init(key):
    k1, k2, k3 = random.split(key, 3)
    return {
        "w1": random.normal(k1, (4, 32)) * 0.5,
        "b1": fnp.zeros(32),
        "policy": random.normal(k2, (32,)) * 0.01,
        "value": random.normal(k3, (32,)) * 0.01,
    }


def net(params, state):
    """-> (logit of a push to the right, value of the state in tens of rewards)."""
    h = fnp.tanh((state * fnp.array([1.0, 1.0, 5.0, 1.0])) @ params["w1"] + params["b1"])
    return h @ params["policy"], h @ params["value"]


def play(params, key):
    """One episode -> states f32[MOMENTS, 4], pushes bool[MOMENTS], alive f32[MOMENTS]."""
    k_start, k_push = random.split(key)

    def moment(carry, key):
        state, alive = carry
        right = random.bernoulli(key, nn.sigmoid(net(params, state)[0]))
        after = push(state, right)
        return (after, alive & ~is_lost(after)), (state, right, alive)

    start = random.uniform(k_start, (4,), minval=-0.05, maxval=0.05)
    _, (states, pushes, alive) = lax.scan(moment, (start, fnp.array(True)), random.split(k_push, MOMENTS))
    return states, pushes, alive.astype(fnp.float32)


def still_to_come(rewards):
    """Discounted sum of this reward and those after it."""

    def back(later, reward):
        now = reward + DISCOUNT * later
        return now, now

    return lax.scan(back, fnp.float32(0), rewards, reverse=True)[1]


def objective(params, states, pushes, alive):
    """What is minimized: its gradient is the policy gradient and that of the value's squared error."""
    logits, values = net(params, states)
    returns = vmap(still_to_come)(alive) / 10
    advantage = lax.stop_gradient(returns - values)
    log_p = fnp.where(pushes, nn.log_sigmoid(logits), nn.log_sigmoid(-logits))
    return fnp.sum(alive * (0.5 * (values - returns) ** 2 - log_p * advantage)) / fnp.sum(alive)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few updates only")
    args = parser.parse_args()
    updates, report, wanted = (60, 20, 50.0) if args.quick else (400, 50, 190.0)
    print(f"fgrad {fg.__version__}, {CARTS} carts, {MOMENTS} moments")
    adam = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(5e-3))

    @jit
    def update(params, state, key):
        """Play with the policy as it is, then improve it. -> mean number of moments the pole stood."""
        played = vmap(play, in_axes=(None, 0))(params, random.split(key, CARTS))
        slope = grad(objective)(params, *played)
        moves, state = adam.update(slope, state, params)
        return optim.apply_updates(params, moves), state, fnp.mean(fnp.sum(played[2], axis=1))

    k_init, k_train, k_test = random.split(random.key(0), 3)
    params = init(k_init)
    state = adam.init(params)
    for i, key in enumerate(random.split(k_train, updates)):
        params, state, stood = update(params, state, key)
        if i == 0 or (i + 1) % report == 0:
            print(f"update {i + 1:4}   the pole stands for {float(stood):6.1f} of {MOMENTS} moments", flush=True)
    alive = jit(vmap(play, in_axes=(None, 0)))(params, random.split(k_test, 500))[2]
    result = float(fnp.mean(fnp.sum(alive, axis=1)))
    print(f"500 new episodes: the pole stands for {result:.1f} moments")
    if result < wanted:
        sys.exit("the policy does not learn")


if __name__ == "__main__":
    main()
