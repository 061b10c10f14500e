"""How far each function may be from the exact value: a promise that tests and reports hold."""

from typing import NamedTuple


class Bound(NamedTuple):
    """The largest error, in units in the last place of the exact result, for each format."""

    float32: float
    float64: float


# Measured maxima, rounded up. Subnormal results carry two roundings. lgamma and digamma of negative
# numbers, and logaddexp, are accurate absolutely: their unit is that of results of at least 1.
BOUNDS: dict[str, Bound] = {
    "exp": Bound(0.82, 0.83),
    "exp2": Bound(0.79, 0.77),
    "expm1": Bound(0.93, 0.93),
    "log": Bound(0.82, 0.84),
    "log2": Bound(0.51, 0.51),
    "log10": Bound(0.51, 0.51),
    "log1p": Bound(0.82, 0.81),
    "sin": Bound(0.73, 0.72),
    "cos": Bound(0.73, 0.72),
    "tan": Bound(0.89, 0.82),
    "asin": Bound(0.63, 0.62),
    "acos": Bound(0.61, 0.61),
    "atan": Bound(0.90, 0.86),
    "sinh": Bound(0.81, 0.82),
    "cosh": Bound(0.62, 0.62),
    "tanh": Bound(0.78, 0.77),
    "asinh": Bound(0.87, 0.88),
    "acosh": Bound(0.87, 0.84),
    "atanh": Bound(0.96, 0.92),
    "sqrt": Bound(0.5, 0.5),
    "rsqrt": Bound(0.501, 0.501),
    "cbrt": Bound(0.501, 0.501),
    "erf": Bound(0.76, 0.75),
    "erfc": Bound(0.89, 1.06),
    "erfinv": Bound(2.2, 2.9),
    "sigmoid": Bound(0.77, 0.80),
    "softplus": Bound(0.87, 0.86),
    "lgamma": Bound(1.8, 1.7),
    "digamma": Bound(3.7, 3.6),
    "pow": Bound(0.77, 0.76),
    "atan2": Bound(0.86, 0.80),
    "hypot": Bound(0.75, 0.75),
    "logaddexp": Bound(0.60, 0.60),
}
