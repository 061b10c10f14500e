"""The remainder of two floats with the sign of the divisor, exact: a function that loops, not straight-line code.

r = |x| is reduced by m = |y|: with s = m 2^j such that r / s has few bits, q = trunc(r / s) is off by one at most,
r - q s is exact, and so is the correction by s. Each turn takes as many bits off r / m as q has.
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
    keep = p - 3 if fma else half - 2  # bits of a quotient
    bias = 1023 if kind == "double" else 127
    ik = f"i{bits}"

    def power(n: int) -> str:
        """2^n as a literal: the bits of the double."""
        return f"0x{(1023 + n) << 52:016X}"

    any_lane = (
        "  %again = or i1 %need, false"
        if lanes == 1
        else f"  %packed = bitcast {m} %need to i{lanes}\n  %again = icmp ne i{lanes} %packed, 0"
    )
    if fma:
        subtract = f"""  %minus = fneg {t} %cut
  %less = call {t} @llvm.fma.{suffix}({t} %minus, {t} %s, {t} %r)"""
    else:  # my = high + low, each short enough that its product with the short quotient is exact
        high_mask = -(1 << (p - half))
        subtract = f"""  %mb = bitcast {t} %s to {i}
  %hb = and {i} %mb, {c(f"i{bits}", str(high_mask))}
  %high = bitcast {i} %hb to {t}
  %low = fsub {t} %s, %high
  %ph = fmul {t} %cut, %high
  %pl = fmul {t} %cut, %low
  %rh = fsub {t} %r, %ph
  %less = fsub {t} %rh, %pl"""
    text = f"""define internal {t} {name}({t} %x, {t} %y) #0 {{
entry:
  %mx = call {t} @llvm.fabs.{suffix}({t} %x)
  %my = call {t} @llvm.fabs.{suffix}({t} %y)
  %fx = fcmp olt {t} %mx, {c(kind, "0x7FF0000000000000")}
  %gy = fcmp ogt {t} %my, {c(kind, "0.0")}
  %ok = and {m} %fx, %gy
  %tiny = fcmp olt {t} %my, {c(kind, power(1 - bias + p))}
  %up0 = fmul {t} %my, {c(kind, power(p))}
  %mn = select {m} %tiny, {t} %up0, {t} %my
  %mnb = bitcast {t} %mn to {i}
  %me = lshr {i} %mnb, {c(ik, p - 1)}
  %me1 = sub {i} %me, {c(ik, p)}
  %em = select {m} %tiny, {i} %me1, {i} %me
  br label %loop
loop:
  %r = phi {t} [ %mx, %entry ], [ %next, %loop ]
  %rb = bitcast {t} %r to {i}
  %re = lshr {i} %rb, {c(ik, p - 1)}
  %gap = sub {i} %re, %em
  %j0 = sub {i} %gap, {c(ik, keep - 1)}
  %jn = icmp slt {i} %j0, {c(ik, 0)}
  %j = select {m} %jn, {i} {c(ik, 0)}, {i} %j0
  %jc = icmp slt {i} %j, {c(ik, bias)}
  %j1 = select {m} %jc, {i} %j, {i} {c(ik, bias)}
  %j2 = sub {i} %j, %j1
  %k1 = add {i} %j1, {c(ik, bias)}
  %k2 = add {i} %j2, {c(ik, bias)}
  %p1 = shl {i} %k1, {c(ik, p - 1)}
  %p2 = shl {i} %k2, {c(ik, p - 1)}
  %f1 = bitcast {i} %p1 to {t}
  %f2 = bitcast {i} %p2 to {t}
  %s1 = fmul {t} %my, %f1
  %s = fmul {t} %s1, %f2
  %q = fdiv {t} %r, %s
  %cut = call {t} @llvm.trunc.{suffix}({t} %q)
{subtract}
  %neg = fcmp olt {t} %less, {c(kind, "0.0")}
  %up = fadd {t} %less, %s
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
