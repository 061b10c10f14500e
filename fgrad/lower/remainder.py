"""The remainder of two floats with the sign of the divisor, exact: a function that loops, not
straight-line code.

r = |x| is reduced by m = |y|: while r >= m in some lane, q = r/m cut to its leading bits and r
-= q*m, which is exact (both are multiples of a common power of two and the difference is shorter
than the mantissa). A quotient below 2^(p-2) is cut to an integer, so the last pass leaves r < m
up to one correction.
"""

from __future__ import annotations


def float_remainder(lanes: int, kind: str, fma: bool) -> tuple[str, str]:
    """-> (name, definition) of `T name(T x, T y)` on vectors of `lanes` x `kind`."""
    p = 53 if kind == "double" else 24
    bits = 64 if kind == "double" else 32
    v = (lambda k: k) if lanes == 1 else (lambda k: f"<{lanes} x {k}>")
    c = (lambda k, x: x) if lanes == 1 else (lambda k, x: f"splat ({k} {x})")
    t, i, m = v(kind), v(f"i{bits}"), v("i1")
    suffix = ("" if lanes == 1 else f"v{lanes}") + f"f{bits}"
    name = f"@fgrad.remainder.{suffix}"
    half = (p + 1) // 2  # without fma the product of two halves is exact
    keep = p - 2 if fma else half - 1
    mask = -(1 << (p - keep))
    any_lane = (
        "  %again = or i1 %need, false"
        if lanes == 1
        else f"  %packed = bitcast {m} %need to i{lanes}\n  %again = icmp ne i{lanes} %packed, 0"
    )
    if fma:
        subtract = f"""  %minus = fneg {t} %cut
  %less = call {t} @llvm.fma.{suffix}({t} %minus, {t} %my, {t} %r)"""
    else:  # my = high + low, each short enough that its product with the short quotient is exact
        high_mask = -(1 << (p - half))
        subtract = f"""  %mb = bitcast {t} %my to {i}
  %hb = and {i} %mb, {c(f"i{bits}", str(high_mask))}
  %high = bitcast {i} %hb to {t}
  %low = fsub {t} %my, %high
  %ph = fmul {t} %cut, %high
  %pl = fmul {t} %cut, %low
  %rh = fsub {t} %r, %ph
  %less = fsub {t} %rh, %pl"""
    big = "0x%016X" % ((1023 + keep) << 52)
    text = f"""define internal {t} {name}({t} %x, {t} %y) #0 {{
entry:
  %mx = call {t} @llvm.fabs.{suffix}({t} %x)
  %my = call {t} @llvm.fabs.{suffix}({t} %y)
  %fx = fcmp olt {t} %mx, {c(kind, "0x7FF0000000000000")}
  %gy = fcmp ogt {t} %my, {c(kind, "0.0")}
  %ok = and {m} %fx, %gy
  br label %loop
loop:
  %r = phi {t} [ %mx, %entry ], [ %next, %loop ]
  %q = fdiv {t} %r, %my
  %qb = bitcast {t} %q to {i}
  %kb = and {i} %qb, {c(f"i{bits}", str(mask))}
  %kf = bitcast {i} %kb to {t}
  %whole = call {t} @llvm.trunc.{suffix}({t} %kf)
  %small = fcmp olt {t} %q, {c(kind, big)}
  %cut = select {m} %small, {t} %whole, {t} %kf
{subtract}
  %neg = fcmp olt {t} %less, {c(kind, "0.0")}
  %up = fadd {t} %less, %my
  %fixed = select {m} %neg, {t} %up, {t} %less
  %ge = fcmp oge {t} %r, %my
  %todo = and {m} %ge, %ok
  %next = select {m} %todo, {t} %fixed, {t} %r
  %more = fcmp oge {t} %next, %my
  %need = and {m} %more, %ok
{any_lane}
  br i1 %again, label %loop, label %done
done:
  %sr = call {t} @llvm.copysign.{suffix}({t} %next, {t} %x)
  %sz = fcmp oeq {t} %next, {c(kind, "0.0")}
  %xb = bitcast {t} %x to {i}
  %yb = bitcast {t} %y to {i}
  %both = xor {i} %xb, %yb
  %differ = icmp slt {i} %both, {c(f"i{bits}", "0")}
  %moved = fadd {t} %sr, %y
  %signed = select {m} %differ, {t} %moved, {t} %sr
  %zero = call {t} @llvm.copysign.{suffix}({t} {c(kind, "0.0")}, {t} %y)
  %out = select {m} %sz, {t} %zero, {t} %signed
  %finite = select {m} %ok, {t} %out, {t} {c(kind, "0x7FF8000000000000")}
  ret {t} %finite
}}"""
    return name, text
