"""Track a moving point through noise: the Kalman filter and smoother as `associative_scan`.

    python examples/kalman.py            # some seconds
    python examples/kalman.py --quick    # a shorter track

The filter is written so that any two neighbouring stretches of time can be combined, which needs a logarithmic number
of rounds instead of one step per measurement. It is compared with the step-by-step filter. Then both noises of the
model are found by maximum likelihood: Newton's method with `grad` and `hessian` through the parallel filter, which also
gives their standard errors. All in float64.

After S. Sarkka, A. Garcia-Fernandez, "Temporal parallelization of Bayesian smoothers", 2021, equations 10 to 19.
"""

import argparse
import math
import sys
import time

import numpy as np

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import hessian, jit, lax, random, value_and_grad, vmap
from fgrad.scipy.linalg import block_diag

DT = 0.1  # seconds between measurements
EYE = np.eye(4)
SEE = np.eye(2, 4)  # the positions of the state (position, position, speed, speed)
MOVE = EYE + DT * np.eye(4, k=2)
START, SURE = np.array([0.0, 0.0, 1.0, 0.5]), 0.1 * EYE
TRUE = np.array([1.0, 0.5])  # strength of the random acceleration, standard deviation of a measurement


def noises(theta):
    """theta: logarithms of the two noises -> covariances of a step f64[4, 4] and of a measurement f64[2, 2]."""
    strength, deviation = fnp.exp(theta)
    one = fnp.array([[DT**3 / 3, DT**2 / 2], [DT**2 / 2, DT]], dtype=fnp.float64)
    order = fnp.array([0, 2, 1, 3])
    step = block_diag(one, one)[order][:, order]
    return strength**2 * step, deviation**2 * fnp.eye(2, dtype=fnp.float64)


def simulate(key, theta, n):
    """-> states f64[n, 4] and measurements f64[n, 2]."""
    q, r = map(fnp.linalg.cholesky, noises(theta))

    def step(x, key):
        k1, k2 = random.split(key)
        x = fnp.dot(MOVE, x) + q @ random.normal(k1, (4,), fnp.float64)
        return x, (x, fnp.dot(SEE, x) + r @ random.normal(k2, (2,), fnp.float64))

    return lax.scan(step, fnp.asarray(START), random.split(key, n))[1]


def updated(mean, cov, y, r):
    """Mean and covariance after the measurement y."""
    s = SEE @ cov @ SEE.T + r
    gain = fnp.linalg.solve(s, SEE @ cov).T
    return mean + gain @ (y - SEE @ mean), cov - gain @ s @ gain.T


def filter_by_scan(theta, ys):
    q, r = noises(theta)

    def step(carry, y):
        mean, cov = carry
        now = updated(MOVE @ mean, MOVE @ cov @ MOVE.T + q, y, r)
        return now, now

    return lax.scan(step, (fnp.asarray(START), fnp.asarray(SURE)), ys)[1]


def joined(i, j):
    """Two neighbouring stretches of time as one; each is p(last state | state before, its measurements) as the Gaussian
    of mean a x + b and covariance c, and the likelihood of the state before in information form (eta, precision)."""
    (a1, b1, c1, eta1, p1), (a2, b2, c2, eta2, p2) = i, j
    forth = fnp.linalg.solve((EYE + c1 @ p2).T, a2.T).T
    back = fnp.linalg.solve((EYE + p2 @ c1).T, a1).T
    return (
        forth @ a1,
        forth @ (b1 + c1 @ eta2) + b2,
        forth @ c1 @ a2.T + c2,
        back @ (eta2 - p2 @ b1) + eta1,
        back @ p2 @ a1 + p1,
    )


def filter_in_parallel(theta, ys):
    """-> means f64[n, 4] and covariances f64[n, 4, 4] of the states, given the measurements up to theirs."""
    q, r = noises(theta)
    s = SEE @ q @ SEE.T + r
    gain = fnp.linalg.solve(s, SEE @ q).T
    seen = SEE @ MOVE
    back = fnp.linalg.solve(s, seen).T

    def element(y):
        return (EYE - gain @ SEE) @ MOVE, gain @ y, (EYE - gain @ SEE) @ q, back @ y, back @ seen

    mean, cov = updated(MOVE @ START, MOVE @ SURE @ MOVE.T + q, ys[0], r)
    a, b, c, eta, precision = vmap(element)(ys)
    elements = (a.at[0].set(0.0), b.at[0].set(mean), c.at[0].set(cov), eta, precision)  # nothing is before the first
    _, means, covs, _, _ = lax.associative_scan(vmap(joined), elements)
    return means, covs


def smooth_in_parallel(theta, means, covs):
    """Means f64[n, 4] given all measurements."""
    q, _ = noises(theta)

    def element(mean, cov):
        e = fnp.linalg.solve(MOVE @ cov @ MOVE.T + q, MOVE @ cov).T
        return e, mean - e @ MOVE @ mean

    e, g = vmap(element)(means, covs)
    elements = (e.at[-1].set(0.0), g.at[-1].set(means[-1]))

    def joined(later, earlier):  # from the end backwards
        (e2, g2), (e1, g1) = later, earlier
        return e1 @ e2, e1 @ g2 + g1

    return lax.associative_scan(vmap(joined), elements, reverse=True)[1]


def negative_log_likelihood(theta, ys):
    q, r = noises(theta)
    means, covs = filter_in_parallel(theta, ys)
    before = fnp.concatenate([START[None], means[:-1]]), fnp.concatenate([SURE[None], covs[:-1]])

    def one(mean, cov, y):
        miss = y - SEE @ MOVE @ mean
        s = SEE @ (MOVE @ cov @ MOVE.T + q) @ SEE.T + r
        return 0.5 * (miss @ fnp.linalg.solve(s, miss) + fnp.linalg.slogdet(s)[1]) + math.log(2 * math.pi)

    return fnp.sum(vmap(one)(*before, ys))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a shorter track")
    args = parser.parse_args()
    n = 100 if args.quick else 2000
    print(f"fgrad {fg.__version__}, {n} measurements of a point that wanders {n * DT:.0f} seconds")
    states, ys = jit(simulate, static_argnums=2)(random.key(3), np.log(TRUE), n)
    results = []
    for name, run in (("step by step", jit(filter_by_scan)), ("in parallel", jit(filter_in_parallel))):
        run(np.log(TRUE), ys)[0].block_until_ready()
        begin = time.perf_counter()
        results.append(run(np.log(TRUE), ys))
        results[-1][0].block_until_ready()
        print(f"filter {name:12}   {1e3 * (time.perf_counter() - begin):.2f} ms")
    gap = max(float(fnp.max(fnp.abs(a - b))) for a, b in zip(*results, strict=True))
    smooth = jit(smooth_in_parallel)(np.log(TRUE), *results[1])
    errors = [float(fnp.sqrt(fnp.mean((x[:, :2] - states[:, :2]) ** 2))) for x in (ys, results[1][0], smooth)]
    print(f"both filters agree to {gap:.1e}")
    print("error of the positions: {:.3f} measured, {:.3f} filtered, {:.3f} smoothed".format(*errors))

    cost = jit(value_and_grad(negative_log_likelihood))
    curvature = jit(hessian(negative_log_likelihood))
    theta = np.log([0.5, 1.0])
    for step in range(20):
        value, slope = map(np.asarray, cost(theta, ys))
        print(f"step {step:2}   log-likelihood {-value:12.6f}   noises {np.exp(theta)}", flush=True)
        if np.abs(slope).max() < 1e-6:
            break
        bend, basis = np.linalg.eigh(np.asarray(curvature(theta, ys)))
        move = basis @ ((basis.T @ slope) / np.maximum(np.abs(bend), 1e-3))  # uphill curvature: turn round
        theta = theta - move * min(1.0, 0.7 / np.abs(move).max())
    deviation = np.sqrt(np.diag(np.linalg.inv(np.asarray(curvature(theta, ys)))))
    for name, found, d, true in zip(("acceleration", "measurement"), theta, deviation, TRUE, strict=True):
        print(f"noise of the {name:12} {math.exp(found):.4f} +- {math.exp(found) * d:.4f}, in truth {true}")
    if gap > 1e-8 or not errors[0] > errors[1] > errors[2]:
        sys.exit("the filters do not work")
    if np.abs(slope).max() > 1e-6 or np.abs((theta - np.log(TRUE)) / deviation).max() > 4:
        sys.exit("the noises are not found")


if __name__ == "__main__":
    main()
