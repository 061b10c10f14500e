"""Short C functions that kernels call, written out only where they are used."""

from __future__ import annotations

from collections.abc import Callable

from fgrad.lower.render.c_text import c_type, int_literal, memory_type, short
from fgrad.lower.smallfloat import FORMATS
from fgrad.uop.dtype import SMALL_FLOATS, DType, int_range

INCLUDES = "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <string.h>\n"
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # Salmon et al. 2011, table 2, threefry2x32

_ENCODE = """static inline uint32_t fg_encode(double x, int mantissa, int least, uint32_t lost, uint32_t nan)
{
    /* to a small float: nearest, ties to even; `lost` are the bits of what is too large */
    const double a = fabs(x);
    if (x != x) {
        return nan;
    }
    if (isinf(a)) {
        return lost;
    }
    const int e = a != 0 && ilogb(a) > least ? ilogb(a) : least;
    const double q = rint(ldexp(a, mantissa - e));
    const double bits = ldexp((double)(e - least), mantissa) + q;
    return bits < lost ? (uint32_t)bits : lost;
}"""
_DECODE = """static inline float fg_decode(uint32_t size, int mantissa, int least)
{
    const int exponent = (int)(size >> mantissa);
    const uint32_t fraction = size & ((1u << mantissa) - 1);
    if (exponent == 0) {
        return ldexpf((float)fraction, least - mantissa);
    }
    return ldexpf((float)(fraction | 1u << mantissa), least - mantissa + exponent - 1);
}"""


class Helpers:
    """The helper functions a file needs, in order of definition."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def need(self, name: str, make: Callable[[], str]) -> str:
        """`name`, defined by `make()` if it was not yet."""
        if name not in self.texts:
            text = make()  # may need others, which then stand before it
            self.texts[name] = text
        return name

    # ---- small floats
    def encode(self, x: str, dtype: DType) -> str:
        """A float or double as the bits of a small float, rounded once."""
        form = FORMATS[dtype]
        size = (1 << (form.bits - 1)) - 1
        lost = size >> form.mantissa << form.mantissa if form.infinity else size + form.one_zero
        nan = lost | 1 << (form.mantissa - 1) if form.infinity else lost

        def make() -> str:
            self.need("fg_encode", lambda: _ENCODE)
            t = memory_type(dtype)
            sign = 1 << (form.bits - 1)
            negative = "size != 0 && signbit(x)" if form.one_zero else "signbit(x)"
            return (
                f"static inline {t} fg_to_{dtype.name}(double x)\n{{\n"
                f"    const uint32_t size = fg_encode(x, {form.mantissa}, {form.least}, {lost}u, {nan}u);\n"
                f"    return ({t})(size | ({negative} ? {sign}u : 0u));\n}}"
            )

        return f"{self.need(f'fg_to_{dtype.name}', make)}({x})"

    def decode(self, x: str, dtype: DType) -> str:
        """The bits of a small float as a float."""
        form = FORMATS[dtype]
        size = (1 << (form.bits - 1)) - 1
        top = size >> form.mantissa << form.mantissa

        def make() -> str:
            self.need("fg_decode", lambda: _DECODE)
            special = (
                f"size > {top}u ? NAN : size == {top}u ? INFINITY : "
                if form.infinity
                else f"bits == {size + 1}u ? NAN : "
                if form.one_zero
                else f"size == {size}u ? NAN : "
            )
            return (
                f"static inline float fg_from_{dtype.name}(uint32_t bits)\n{{\n"
                f"    const uint32_t size = bits & {size}u;\n"
                f"    const float x = {special}fg_decode(size, {form.mantissa}, {form.least});\n"
                f"    return bits & {1 << (form.bits - 1)}u ? -x : x;\n}}"
            )

        return f"{self.need(f'fg_from_{dtype.name}', make)}({x})"

    def rounded(self, x: str, dtype: DType) -> str:
        """A float or double as the nearest value of `dtype`."""
        return self.decode(self.encode(x, dtype), dtype) if dtype in SMALL_FLOATS else x

    # ---- bits
    def bits(self, source: str, target: str, x: str) -> str:
        """A value of one name (f32, f64, int32, ..) as another of the same width."""
        types = {"f32": "float", "f64": "double"}
        a, b = types.get(source, f"{source}_t"), types.get(target, f"{target}_t")
        name = f"fg_{source}_to_{target}"
        text = (
            f"static inline {b} {name}({a} x)\n{{\n    {b} y;\n"
            f"    memcpy(&y, &x, sizeof y);\n    return y;\n}}"
        )
        return f"{self.need(name, lambda: text)}({x})"

    # ---- integers
    def saturated(self, x: str, source: DType, dtype: DType) -> str:
        """A float as an integer: truncated, out of range the nearest, NaN gives 0."""
        lo, hi = int_range(dtype)
        t, f = c_type(dtype), c_type(source)
        lowest, highest = int_literal(lo, dtype), int_literal(hi, dtype)
        name = f"fg_cut_{short(source)}_to_{dtype.name}"

        def make() -> str:
            return (
                f"static inline {t} {name}({f} x)\n{{\n"
                f"    if (x != x) {{\n        return 0;\n    }}\n"
                f"    if (x < {float(lo)!r}) {{\n        return {lowest};\n    }}\n"
                f"    return x >= {float(hi + 1)!r} ? {highest} : ({t})x;\n}}"
            )

        return f"{self.need(name, make)}({x})"

    def divided(self, dtype: DType, x: str, y: str) -> str:
        """The floor of an integer quotient; by zero 0."""
        t = c_type(dtype)
        name = f"fg_floor_{dtype.name}"
        body = f"    return y == 0 ? 0 : ({t})(x / y);\n"
        if dtype.is_signed:  # by -1 apart: the smallest integer has no negative
            body = (
                "    if (y == 0 || y == -1) {\n"
                f"        return y == 0 ? 0 : ({t})(0 - (uint64_t)x);\n    }}\n"
                f"    return ({t})(x / y - (x % y != 0 && (x < 0) != (y < 0)));\n"
            )
        text = f"static inline {t} {name}({t} x, {t} y)\n{{\n{body}}}"
        return f"{self.need(name, lambda: text)}({x}, {y})"

    def modulo(self, dtype: DType, x: str, y: str) -> str:
        """The integer remainder with the sign of the divisor; by zero 0."""
        t = c_type(dtype)
        name = f"fg_mod_{dtype.name}"
        body = f"    return y == 0 ? 0 : ({t})(x % y);\n"
        if dtype.is_signed:
            body = (
                f"    const {t} r = y == 0 || y == -1 ? 0 : ({t})(x % y);\n"
                f"    return r != 0 && (r < 0) != (y < 0) ? ({t})(r + y) : r;\n"
            )
        text = f"static inline {t} {name}({t} x, {t} y)\n{{\n{body}}}"
        return f"{self.need(name, lambda: text)}({x}, {y})"

    def shifted(self, left: bool, dtype: DType, x: str, n: str) -> str:
        """Shifts; a count outside 0 .. width - 1 shifts everything out."""
        t = c_type(dtype)
        u = f"uint{max(dtype.bits, 32)}_t"
        name = f"fg_{'shl' if left else 'shr'}_{dtype.name}"
        inside = f"n < {dtype.bits}" if not dtype.is_signed else f"n >= 0 && n < {dtype.bits}"
        if left:
            value, gone = f"({t})(({u})x << n)", "0"
        else:
            value, gone = f"({t})(x >> n)", "x < 0 ? -1 : 0" if dtype.is_signed else "0"
        text = (
            f"static inline {t} {name}({t} x, {t} n)\n{{\n"
            f"    return {inside} ? {value} : ({gone});\n}}"
        )
        return f"{self.need(name, lambda: text)}({x}, {n})"

    # ---- floats
    def extreme(self, largest: bool, double: bool, x: str, y: str) -> str:
        """The larger or smaller of two floats; NaN wins."""
        t = "double" if double else "float"
        name = f"fg_{'max' if largest else 'min'}_{'f64' if double else 'f32'}"
        text = (
            f"static inline {t} {name}({t} x, {t} y)\n{{\n"
            f"    return x != x || x {'>' if largest else '<'} y ? x : y;\n}}"
        )
        return f"{self.need(name, lambda: text)}({x}, {y})"

    def remainder(self, double: bool, x: str, y: str) -> str:
        """The remainder of two floats with the sign of the divisor."""
        t, f = ("double", "") if double else ("float", "f")
        name = f"fg_mod_{'f64' if double else 'f32'}"
        text = (
            f"static inline {t} {name}({t} x, {t} y)\n{{\n    const {t} r = fmod{f}(x, y);\n"
            f"    if (r == 0) {{\n        return copysign{f}(0, y);\n    }}\n"
            f"    return (r < 0) != (y < 0) ? r + y : r;\n}}"
        )
        return f"{self.need(name, lambda: text)}({x}, {y})"

    def threefry(self, word: int, xs: list[str]) -> str:
        """One output word of Threefry-2x32-20."""
        name = f"fg_threefry{word}"

        def make() -> str:
            first, second = [", ".join(map(str, row)) for row in _ROTATIONS]
            lines = [
                f"static uint32_t {name}(uint32_t k0, uint32_t k1, uint32_t a, uint32_t b)",
                "{",
                "    const uint32_t k[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};",
                f"    static const int by[2][4] = {{{{{first}}}, {{{second}}}}};",
                "    a += k[0];",
                "    b += k[1];",
                "    for (int i = 0; i < 5; i++) {",
                "        for (int j = 0; j < 4; j++) {",
                "            a += b;",
                "            b = (b << by[i % 2][j] | b >> (32 - by[i % 2][j])) ^ a;",
                "        }",
                "        a += k[(i + 1) % 3];",
                "        b += k[(i + 2) % 3] + (uint32_t)i + 1;",
                "    }",
                f"    return {'b' if word else 'a'};",
                "}",
            ]
            return "\n".join(lines)

        return f"{self.need(name, make)}({', '.join(xs)})"
