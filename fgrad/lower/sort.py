"""Kernels of SORT along the last axis: a stable radix sort of (key, position) pairs, then one
gather of each payload.

A key becomes an unsigned integer of equal order: floats flip their negative half, -0 becomes 0,
every NaN the largest; signed integers flip the sign bit. Digits are bytes; a pass whose digit
all keys share is skipped.
"""

from __future__ import annotations

import math

from fgrad.lower.cost import tasks_for
from fgrad.lower.index import Ranges
from fgrad.lower.kernel import Buffer, Kernel, Scratch, Sort
from fgrad.lower.limits import Limits
from fgrad.lower.smallfloat import FORMATS
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp

HISTOGRAM = 256
NS_PER_PASS = 3.0  # an element


def build_sort(name: str, u: UOp, limits: Limits) -> Kernel:
    """The kernel of SORT node `u` along its last axis; buffers: sources, then targets."""
    shape = u.src[0].shape
    n = shape[-1]
    rows = math.prod(shape[:-1])
    count = len(u.src)
    key = u.src[0].dtype
    buffers = [Buffer(s.dtype, s.size, True, False) for s in u.src]
    buffers += [Buffer(s.dtype, s.size, False, True) for s in u.src]
    unsigned = {1: dt.uint8, 2: dt.uint16, 4: dt.uint32, 8: dt.uint64}[key.itemsize]
    scratch = (
        Scratch(unsigned, n), Scratch(unsigned, n), Scratch(dt.uint32, n), Scratch(dt.uint32, n),
        Scratch(dt.uint32, HISTOGRAM),
    )  # fmt: skip
    work = rows * n * (key.itemsize * NS_PER_PASS + 2 * count)
    tasks = tasks_for(work, rows)
    tasks = -(-rows // -(-rows // tasks))
    statement = Sort(rows, n, tuple(range(count)), tuple(range(count, 2 * count)), tuple(range(5)))
    moved = 2 * sum([s.size * s.dtype.itemsize for s in u.src])
    return Kernel(
        name, Ranges(), tuple(buffers), {}, (statement,), scratch, tasks, bytes=moved, work_ns=work, about=(u,)
    )  # fmt: skip


def ordered_key(dtype: DType) -> str:
    """Text of `iN @fgrad.sortkey.<dtype>(iN)`: bits of an element to an unsigned integer of equal
    order.
    """
    bits = dtype.bits
    t, top = f"i{bits}", -(1 << (bits - 1)) if bits > 8 else -128
    head = f"define internal {t} @fgrad.sortkey.{dtype}({t} %x) #0 {{\nentry:"
    if dtype is dt.bool_ or not dtype.is_float:
        if not dtype.is_signed:
            return f"{head}\n  ret {t} %x\n}}"
        return f"{head}\n  %y = xor {t} %x, {top}\n  ret {t} %y\n}}"
    # nothing but the bits of -0 is NaN, or everything beyond infinity
    nan = f"eq {t} %x, {top}" if dtype in dt.ONE_ZERO else f"ugt {t} %size, {_infinity_bits(dtype)}"
    return f"""{head}
  %size = and {t} %x, {~top}
  %nan = icmp {nan}
  %zero = icmp eq {t} %size, 0
  %one = select i1 %zero, {t} 0, {t} %x
  %sign = ashr {t} %one, {bits - 1}
  %flip = or {t} %sign, {top}
  %y = xor {t} %one, %flip
  %z = select i1 %nan, {t} -1, {t} %y
  ret {t} %z
}}"""


def _infinity_bits(dtype: DType) -> int:
    """The largest magnitude that is no NaN, as bits."""
    if dtype is dt.float32:
        return 0x7F800000
    if dtype is dt.float64:
        return 0x7FF0000000000000
    form = FORMATS[dtype]
    if not form.infinity:
        return (1 << (form.bits - 1)) - 2
    return ((1 << (form.bits - 1 - form.mantissa)) - 1) << form.mantissa


def radix_sort(dtype: DType) -> str:
    """Text of `ptr @fgrad.radix.<dtype>(ptr from, ptr ka, ptr kb, ptr pa, ptr pb, ptr h, i64 n)`.

    Sorts the n elements at `from`; returns where the sorted positions (i32) are.
    """
    bits = dtype.bits
    t = f"i{bits}"
    size = dtype.itemsize
    digit_type = "" if bits == 64 else f"  %d.P = zext {t} %m.P to i64\n"
    digit = "%m.P" if bits == 64 else "%d.P"

    def digit_of(p: str, key: str) -> str:
        return (
            f"  %s.P = lshr {t} {key}, %shift\n  %m.P = and {t} %s.P, {255 if bits > 8 else -1}\n{digit_type}"
        ).replace(".P", p)

    shift_cast = {
        8: "trunc i64 %shift64 to i8",
        16: "trunc i64 %shift64 to i16",
        32: "trunc i64 %shift64 to i32",
    }
    shift = f"  %shift = {shift_cast[bits]}" if bits < 64 else "  %shift = add i64 %shift64, 0"
    parameters = "ptr %from, ptr %ka, ptr %kb, ptr %pa, ptr %pb, ptr %h, i64 %n"
    return f"""define internal ptr @fgrad.radix.{dtype}({parameters}) #0 {{
entry:
  br label %load
load:
  %i = phi i64 [ 0, %entry ], [ %in, %load ]
  %fp = getelementptr {t}, ptr %from, i64 %i
  %x = load {t}, ptr %fp, align {size}
  %k = call {t} @fgrad.sortkey.{dtype}({t} %x)
  %kp = getelementptr {t}, ptr %ka, i64 %i
  store {t} %k, ptr %kp, align {size}
  %i32 = trunc i64 %i to i32
  %pp = getelementptr i32, ptr %pa, i64 %i
  store i32 %i32, ptr %pp, align 4
  %in = add nuw i64 %i, 1
  %ic = icmp ult i64 %in, %n
  br i1 %ic, label %load, label %pass
pass:
  %shift64 = phi i64 [ 0, %load ], [ %shiftn, %next ]
  %k1 = phi ptr [ %ka, %load ], [ %k1n, %next ]
  %k2 = phi ptr [ %kb, %load ], [ %k2n, %next ]
  %p1 = phi ptr [ %pa, %load ], [ %p1n, %next ]
  %p2 = phi ptr [ %pb, %load ], [ %p2n, %next ]
{shift}
  br label %clear
clear:
  %c = phi i64 [ 0, %pass ], [ %cn, %clear ]
  %cp = getelementptr i32, ptr %h, i64 %c
  store <16 x i32> zeroinitializer, ptr %cp, align 4
  %cn = add nuw i64 %c, 16
  %cc = icmp ult i64 %cn, {HISTOGRAM}
  br i1 %cc, label %clear, label %count
count:
  %j = phi i64 [ 0, %clear ], [ %jn, %count ]
  %jp = getelementptr {t}, ptr %k1, i64 %j
  %jk = load {t}, ptr %jp, align {size}
{digit_of(".a", "%jk")}  %hp = getelementptr i32, ptr %h, i64 {digit.replace(".P", ".a")}
  %hv = load i32, ptr %hp, align 4
  %hn = add i32 %hv, 1
  store i32 %hn, ptr %hp, align 4
  %jn = add nuw i64 %j, 1
  %jc = icmp ult i64 %jn, %n
  br i1 %jc, label %count, label %check
check:
  %hl = load i32, ptr %hp, align 4
  %hz = zext i32 %hl to i64
  %all = icmp eq i64 %hz, %n
  br i1 %all, label %skip, label %sum
sum:
  %q = phi i64 [ 0, %check ], [ %qn, %sum ]
  %total = phi i32 [ 0, %check ], [ %totaln, %sum ]
  %qp = getelementptr i32, ptr %h, i64 %q
  %qv = load i32, ptr %qp, align 4
  store i32 %total, ptr %qp, align 4
  %totaln = add i32 %total, %qv
  %qn = add nuw i64 %q, 1
  %qc = icmp ult i64 %qn, {HISTOGRAM}
  br i1 %qc, label %sum, label %move
move:
  %m = phi i64 [ 0, %sum ], [ %mn, %move ]
  %mp = getelementptr {t}, ptr %k1, i64 %m
  %mk = load {t}, ptr %mp, align {size}
  %ip = getelementptr i32, ptr %p1, i64 %m
  %iv = load i32, ptr %ip, align 4
{digit_of(".b", "%mk")}  %gp = getelementptr i32, ptr %h, i64 {digit.replace(".P", ".b")}
  %g = load i32, ptr %gp, align 4
  %gn = add i32 %g, 1
  store i32 %gn, ptr %gp, align 4
  %g64 = zext i32 %g to i64
  %ok = getelementptr {t}, ptr %k2, i64 %g64
  store {t} %mk, ptr %ok, align {size}
  %oi = getelementptr i32, ptr %p2, i64 %g64
  store i32 %iv, ptr %oi, align 4
  %mn = add nuw i64 %m, 1
  %mc = icmp ult i64 %mn, %n
  br i1 %mc, label %move, label %swap
swap:
  br label %next
skip:
  br label %next
next:
  %k1n = phi ptr [ %k2, %swap ], [ %k1, %skip ]
  %k2n = phi ptr [ %k1, %swap ], [ %k2, %skip ]
  %p1n = phi ptr [ %p2, %swap ], [ %p1, %skip ]
  %p2n = phi ptr [ %p1, %swap ], [ %p2, %skip ]
  %shiftn = add nuw i64 %shift64, 8
  %sc = icmp ult i64 %shiftn, {bits}
  br i1 %sc, label %pass, label %done
done:
  ret ptr %p1n
}}"""


def permute_text(itemsize: int) -> str:
    """Text of `void @fgrad.permute.<bytes>(ptr from, ptr to, ptr at, i64 n)`: to[i] = from[at[i]]."""
    t = f"i{itemsize * 8}"
    return f"""define internal void @fgrad.permute.{itemsize}(ptr %from, ptr %to, ptr %at, i64 %n) #0 {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %in, %loop ]
  %ap = getelementptr i32, ptr %at, i64 %i
  %a = load i32, ptr %ap, align 4
  %a64 = zext i32 %a to i64
  %fp = getelementptr {t}, ptr %from, i64 %a64
  %x = load {t}, ptr %fp, align {itemsize}
  %tp = getelementptr {t}, ptr %to, i64 %i
  store {t} %x, ptr %tp, align {itemsize}
  %in = add nuw i64 %i, 1
  %c = icmp ult i64 %in, %n
  br i1 %c, label %loop, label %done
done:
  ret void
}}"""
