"""Logistic regression by Newton's method on the breast-cancer table that scikit-learn ships (569 rows, 30 columns).

    python examples/newton.py

`grad` and `hessian` of the penalised log-likelihood, both compiled; every step solves a 31x31 system. Newton's method
converges quadratically, so the gradient's norm falls to rounding in a handful of steps.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

import fgrad.numpy as fnp
from fgrad import grad, hessian, jit, nn


def main():
    table = load_breast_cancer()
    x = table.data
    x = (x - x.mean(0)) / x.std(0)
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)  # float64 comes in, float64 is kept
    y = table.target.astype(np.float64)

    def loss(w):
        """Negative log-likelihood of labels 0, 1 with a quadratic penalty."""
        margin = fnp.dot(x, w) * (2 * y - 1)
        return fnp.sum(nn.softplus(-margin)) + 0.5 * fnp.sum(w[:-1] ** 2)

    value_of = jit(loss)
    slope, curvature = jit(grad(loss)), jit(hessian(loss))
    w = fnp.zeros(x.shape[1], fnp.float64)
    for step in range(12):
        g = slope(w)
        norm = float(fnp.linalg.norm(g))
        print(f"step {step:2}   loss {float(value_of(w)):12.8f}   |gradient| {norm:.3e}")
        if norm < 1e-9:
            break
        w = w - np.linalg.solve(curvature(w), g)
    accuracy = float(fnp.mean((fnp.dot(x, w) > 0) == (y > 0.5)))
    print(f"accuracy on the table {accuracy:.4f}")
    if norm > 1e-6:
        raise SystemExit("Newton's method did not converge")


if __name__ == "__main__":
    main()
