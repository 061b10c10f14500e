"""Aim a space probe by differentiating through its flight.

    python examples/gravity.py

A probe leaves the Earth's orbit with a velocity to be found, flies 400 leapfrog steps in the field of the Sun and
of Mars, and should arrive at Mars. The whole flight is one traced loop; `value_and_grad` gives the miss distance
and its derivative with respect to the launch velocity, and Gauss-Newton steps with `jacfwd` close in on the target.
Units: astronomical units, years, solar masses (so that G is 4 pi^2).
"""

import math

import numpy as np

import fgrad.numpy as fnp
from fgrad import jacfwd, jit, lax, value_and_grad

G = 4 * math.pi**2
MARS_RADIUS, MARS_MASS = 1.524, 3.2e-7
STEPS, YEARS = 400, 0.7
START = np.array([1.0, 0.0])


def mars(t):
    """Position of Mars at time t on a circular orbit that begins 0.77 radians ahead."""
    angle = 0.77 + t * math.sqrt(G / MARS_RADIUS**3)
    return MARS_RADIUS * fnp.stack([fnp.cos(angle), fnp.sin(angle)])


def acceleration(p, t):
    to_mars = mars(t) - p
    pull = MARS_MASS * to_mars / (fnp.sum(to_mars**2) + 1e-6) ** 1.5
    return G * (pull - p / fnp.sum(p**2) ** 1.5)


def fly(velocity):
    """-> (final position, the path f64[STEPS, 2])."""
    dt = YEARS / STEPS

    def step(carry, i):
        p, v = carry
        t = i * dt
        v = v + 0.5 * dt * acceleration(p, t)
        p = p + dt * v
        v = v + 0.5 * dt * acceleration(p, t + dt)
        return (p, v), p

    (p, _), path = lax.scan(step, (fnp.asarray(START), velocity), fnp.arange(STEPS))
    return p, path


def miss(velocity):
    """Vector from Mars to the probe at the end."""
    return fly(velocity)[0] - mars(YEARS)


def main():
    distance = jit(value_and_grad(lambda v: fnp.sqrt(fnp.sum(miss(v) ** 2))))
    residual, jacobian = jit(miss), jit(jacfwd(miss))
    velocity = fnp.array([0.0, 1.15 * math.sqrt(G)], dtype=fnp.float64)
    for step in range(12):
        d, slope = distance(velocity)
        print(f"step {step:2}   miss {float(d):.3e} au   d(miss)/d(launch velocity) {np.asarray(slope)}")
        if d < 1e-9:
            break
        velocity = velocity - np.linalg.solve(jacobian(velocity), residual(velocity))
    print(
        f"launch velocity {np.asarray(velocity)} au/year, arrival {float(d) * 1.496e8:.3f} km from the centre of Mars"
    )
    if d > 1e-6:
        raise SystemExit("the probe missed Mars")


if __name__ == "__main__":
    main()
