"""Every function by name, with its operand count and its cost."""

from collections.abc import Callable
from dataclasses import dataclass

from fgrad.lower.functions import (
    error_function,
    exponential,
    gamma,
    hyperbolic,
    inverse_trigonometric,
    logarithm,
    logistic,
    power,
    roots,
    trigonometric,
)
from fgrad.lower.functions.machine import H, Kind, Machine
from fgrad.lower.functions.value import Value


@dataclass(frozen=True, slots=True)
class Function:
    """A function that any machine can compute: `function(machine, *operands)` is its value.

    Operands and result are float handles of the machine.

    arity  number of operands
    cost   simple operations it takes for one vector, a division or square root counting as 8;
           sin, cos and tan without the rare reduction of large arguments
    """

    name: str
    arity: int
    cost: int
    body: Callable[..., Value]

    def __call__(self, machine: Machine[H], *operands: H) -> H:
        if len(operands) != self.arity:
            raise TypeError(f"{self.name} takes {self.arity} operands, got {len(operands)}")
        result = self.body(*(Value(machine, handle, Kind.FLOAT) for handle in operands))
        handle: H = result.handle
        return handle


def _unary(body: Callable[[Value], Value], cost: int) -> Function:
    return Function(body.__name__, 1, cost, body)


def _binary(body: Callable[[Value, Value], Value], cost: int) -> Function:
    return Function(body.__name__, 2, cost, body)


FUNCTIONS: dict[str, Function] = {
    function.name: function
    for function in (
        _unary(exponential.exp, 28),
        _unary(exponential.exp2, 39),
        _unary(exponential.expm1, 46),
        _unary(logarithm.log, 42),
        _unary(logarithm.log2, 87),
        _unary(logarithm.log10, 88),
        _unary(logarithm.log1p, 65),
        _unary(trigonometric.sin, 64),
        _unary(trigonometric.cos, 64),
        _unary(trigonometric.tan, 85),
        _unary(inverse_trigonometric.asin, 52),
        _unary(inverse_trigonometric.acos, 58),
        _unary(inverse_trigonometric.atan, 61),
        _unary(hyperbolic.sinh, 84),
        _unary(hyperbolic.cosh, 60),
        _unary(hyperbolic.tanh, 66),
        _unary(hyperbolic.asinh, 133),
        _unary(hyperbolic.acosh, 117),
        _unary(hyperbolic.atanh, 89),
        _unary(roots.sqrt, 8),
        _unary(roots.rsqrt, 46),
        _unary(roots.cbrt, 59),
        _unary(error_function.erf, 133),
        _unary(error_function.erfc, 155),
        _unary(error_function.erfinv, 106),
        _unary(logistic.sigmoid, 75),
        _unary(logistic.softplus, 124),
        _unary(gamma.lgamma, 338),
        _unary(gamma.digamma, 258),
        _binary(power.pow, 189),
        _binary(inverse_trigonometric.atan2, 113),
        _binary(roots.hypot, 72),
        _binary(logistic.logaddexp, 149),
    )
}
