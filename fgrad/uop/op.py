"""The operations, in the order that every table keeps.

Sources are written in parentheses, the arg after the colon. "axes" are positions in the result unless said otherwise.
"""

from __future__ import annotations

from enum import IntEnum, auto


class Op(IntEnum):
    """One kind of node."""

    # ---- leaves
    CONST = auto()  # (): (dtype, bytes)            a scalar; larger constants are EXPANDs of it
    PARAM = auto()  # (): (slot | ("p", serial, name), dtype, shape)
    BUFFER = auto()  # (): Storage                  memory with an identity
    IOTA = auto()  # (): (dtype, n)                 0, 1, .. n-1
    VARIABLE = auto()  # (): (name, lo, hi)         a symbolic int64 scalar bound at call time
    # ---- movement
    RESHAPE = auto()  # (x): shape
    PERMUTE = auto()  # (x): axes of x in result order
    EXPAND = auto()  # (x): ((axis, n), ..)         inserts axes, ascending
    PAD = auto()  # (x): ((lo, hi, interior), ..)   zeros before, after and between the elements of each axis
    SHRINK = auto()  # (x, *starts): ((start | None, size, step), ..)   None: the next source, an int64 scalar, clamped
    FLIP = auto()  # (x): axes
    BITCAST = auto()  # (x): dtype                  same itemsize
    WINDOW = auto()  # (x): (axis, kaxis, n, o, stride, dilation)  y[..o..k..] = x[..o*stride+k*dilation..k..]
    SKEW = (
        auto()
    )  # (x): same                      transpose of WINDOW: y[..n..k..] = x[..(n-k*dilation)/stride..k..] or 0
    # ---- elementwise, one operand
    CAST = (
        auto()
    )  # (x): dtype                     as NumPy; float to int truncates, out of range saturates, NaN gives 0
    NEG = auto()
    NOT = auto()  # bool: not; integers: all bits flipped
    ABS = auto()
    FLOOR = auto()
    CEIL = auto()
    TRUNC = auto()
    ROUND = auto()  # half to even
    SQRT = auto()
    RSQRT = auto()
    CBRT = auto()
    EXP = auto()
    EXP2 = auto()
    EXPM1 = auto()
    LOG = auto()
    LOG2 = auto()
    LOG10 = auto()
    LOG1P = auto()
    SIN = auto()
    COS = auto()
    TAN = auto()
    ASIN = auto()
    ACOS = auto()
    ATAN = auto()
    SINH = auto()
    COSH = auto()
    TANH = auto()
    ASINH = auto()
    ACOSH = auto()
    ATANH = auto()
    SIGMOID = auto()
    SOFTPLUS = auto()  # log(1 + exp x)
    ERF = auto()
    ERFC = auto()
    ERF_INV = auto()
    LGAMMA = auto()
    DIGAMMA = auto()
    REAL = auto()
    IMAG = auto()
    # ---- elementwise, two operands of one dtype and shape
    ADD = auto()  # bool: or
    MUL = auto()  # bool: and
    DIV = auto()  # floats and complex only
    IDIV = auto()  # integers, floor; by zero gives 0
    MOD = auto()  # sign of the divisor; integers by zero give 0
    MAX = auto()  # NaN wins
    MIN = auto()
    POW = auto()  # floats
    ATAN2 = auto()
    HYPOT = auto()
    LOGADDEXP = auto()  # log(exp x + exp y)
    COPYSIGN = auto()
    AND = auto()
    OR = auto()
    XOR = auto()
    SHL = auto()  # by at least the width: 0
    SHR = auto()  # arithmetic when signed
    LT = auto()  # -> bool
    LE = auto()
    EQ = auto()
    COMPLEX = auto()  # (re, im)
    # ---- elementwise, more operands
    WHERE = auto()  # (bool, x, y)
    THREEFRY = auto()  # (k0, k1, x0, x1) uint32: 0 | 1   one of the two output words, 20 rounds
    # ---- across elements
    REDUCE = auto()  # (x): (op, axes of x)         removes axes; op in ADD MUL MAX MIN AND OR XOR
    PREFIX = auto()  # (x): (op, axis, reverse)     inclusive running ADD MUL MAX MIN
    SORT = auto()  # (key, *payloads): axis         -> tuple; ascending, stable, NaN last
    GATHER = auto()  # (x, idx): nb                 out[b.., i.., r..] = x[b.., idx[b.., i..], r..]; out of bounds: 0
    UPDATE = auto()  # (old, value, *starts, [idx], [gate]): Update
    # ---- calls
    CALL = auto()  # (*args): Call                  -> tuple
    SCAN = auto()  # (*consts, *init, *xs): Scan    -> tuple
    WHILE = auto()  # (*consts, *init): While       -> tuple
    COND = auto()  # (index, *operands): Cond       -> tuple
    HOST = auto()  # (*args): Host                  -> tuple
    TUPLE = auto()  # (*xs)
    GET = auto()  # (tuple): i
    # ---- across devices
    COPY = auto()  # (x): device
    COLLECTIVE = auto()  # (x): (kind, axis name, *more)
    # ---- memory
    LOAD = auto()  # (x): the contents at this point of the order
    STORE = auto()  # (view, value, [gate]): Mode   -> void
    AFTER = auto()  # (x, *deps)


LEAVES = (Op.CONST, Op.PARAM, Op.BUFFER, Op.IOTA, Op.VARIABLE)
MOVEMENT = (
    Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.FLIP, Op.BITCAST, Op.WINDOW, Op.SKEW,
)  # fmt: skip
UNARY = tuple(op for op in Op if Op.CAST <= op <= Op.IMAG)
BINARY = tuple(op for op in Op if Op.ADD <= op <= Op.COMPLEX)
ELEMENTWISE = (*UNARY, *BINARY, Op.WHERE, Op.THREEFRY)
FLOAT_FUNCTIONS = tuple(op for op in Op if Op.SQRT <= op <= Op.DIGAMMA)  # floats in, floats out
ROUNDING = (Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND)
COMPARE = (Op.LT, Op.LE, Op.EQ)
BITWISE = (Op.AND, Op.OR, Op.XOR)
REDUCERS = (Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR)
CALLS = (Op.CALL, Op.SCAN, Op.WHILE, Op.COND, Op.HOST)
MEMORY = (Op.LOAD, Op.STORE, Op.AFTER)


class Mode(IntEnum):
    """How a write combines with what is there."""

    SET = 0
    ADD = 1
    MUL = 2
    MIN = 3
    MAX = 4
