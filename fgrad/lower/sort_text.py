"""LLVM text of the functions that sort: a stable radix sort, and ranks for short rows.

A key becomes an unsigned integer of equal order: floats flip their negative half, -0 becomes 0, every NaN the
largest; signed integers flip the sign bit. Digits cover the bits in which the keys of a row differ, so small
integers need few passes. Sorted keys are made from these integers again; if a row has bit patterns that they do not
tell (-0 among zeros, NaN), its zeros and NaN are written once more, in the order of the source.

What a piece of a row finds out about its keys stands in its `stats`: smallest, largest, the bits in which they differ
from the first key of the row, the bits that are not restored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from fgrad.lower.smallfloat import FORMATS
from fgrad.lower.sort import STATS_WORDS, Layout
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType

AT_ONCE = 16  # counts that are cleared or added up together
DECLARATIONS = (
    "declare i64 @llvm.umin.i64(i64, i64)", "declare i64 @llvm.umax.i64(i64, i64)",
    "declare i64 @llvm.cttz.i64(i64, i1)", "declare i64 @llvm.ctlz.i64(i64, i1)",
)  # fmt: skip
PLAN = 8  # the word of a piece's stats where the plan begins
_SLICE = "i64 %lo, i64 %hi, i64 %min, i64 %shift, i64 %mask"
_SPACE = "ptr %a, ptr %b, ptr %stats, ptr %counts, ptr %places"
Carried = tuple[str, str, str, str]  # name, type, first value, next value


# ---- keys
def ordered_key(dtype: DType, x: str, out: str, lanes: int = 1) -> str:
    """Lines that compute `out`, the unsigned integer of equal order, from the bits `x` of an element, or of lanes."""
    bits = dtype.bits
    t, b, c = _types(bits, lanes)
    top = -(1 << (bits - 1))
    if not dtype.is_float:
        return f"  {out} = xor {t} {x}, {c(top if dtype.is_signed else 0)}"
    if dtype in dt.ONE_ZERO:  # all bit patterns are numbers but one: that of -0, which is NaN, leaves its place
        nan = f"eq {t} {x}, {c(top)}"
        room = f"  {out}.room = xor {t} {out}.sign, {c(-1)}\n  {out}.number = add {t} {out}.plain, {out}.room"
    else:
        nan = f"ugt {t} {out}.size, {c(_infinity_bits(dtype))}"
        room = f"  {out}.number = add {t} {out}.plain, {c(0)}"
    return f"""  {out}.size = and {t} {x}, {c(~top)}
  {out}.nan = icmp {nan}
  {out}.zero = icmp eq {t} {out}.size, {c(0)}
  {out}.one = select {b} {out}.zero, {t} {c(0)}, {t} {x}
  {out}.sign = ashr {t} {out}.one, {c(bits - 1)}
  {out}.flip = or {t} {out}.sign, {c(top)}
  {out}.plain = xor {t} {out}.one, {out}.flip
{room}
  {out} = select {b} {out}.nan, {t} {c(-1)}, {t} {out}.number"""


def element_of(dtype: DType, key: str, out: str, lanes: int = 1) -> str:
    """Lines that compute `out`, the bits of an element with this `key`: the inverse, but for -0 and NaN."""
    t, _, c = _types(dtype.bits, lanes)
    top = -(1 << (dtype.bits - 1))
    if not dtype.is_float:
        return f"  {out} = xor {t} {key}, {c(top if dtype.is_signed else 0)}"
    inside = ""
    if dtype in dt.ONE_ZERO:
        b = _types(1, lanes)[0]
        inside = f"""  {out}.above = icmp uge {t} {key}, {c(~top)}
  {out}.room = zext {b} {out}.above to {t}
  {out}.key = add {t} {key}, {out}.room
"""
        key = f"{out}.key"
    return f"""{inside}  {out}.sign = ashr {t} {key}, {c(dtype.bits - 1)}
  {out}.low = xor {t} {out}.sign, {c(-1)}
  {out}.flip = or {t} {out}.low, {c(top)}
  {out} = xor {t} {key}, {out}.flip"""


def _types(bits: int, lanes: int) -> tuple[str, str, Callable[[int], str]]:
    """-> (type of the integers, type of their comparisons, text of a constant)."""
    if lanes == 1:
        return f"i{bits}", "i1", str
    return f"<{lanes} x i{bits}>", f"<{lanes} x i1>", lambda x: f"splat (i{bits} {x})"


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


def _cast(value: str, source: int, to: int, out: str) -> str:
    """A line: `out` is the unsigned integer `value` with `to` bits."""
    if source == to:
        return f"  {out} = add i{to} {value}, 0"
    return f"  {out} = {'zext' if source < to else 'trunc'} i{source} {value} to i{to}"


def _loop(
    tag: str, before: str, hi: str, body: str, *, lo: str = "0", step: int = 1, end: str = "",
    carried: Sequence[Carried] = (),
) -> str:  # fmt: skip
    """A loop of `%{tag}` from lo to below hi, at least once; `body` ends in block `end`. What follows is block
    `{tag}.done`.
    """
    end = end or f"{tag}.loop"
    phis = "".join([f"\n  {x} = phi {t} [ {a}, %{before} ], [ {b}, %{end} ]" for x, t, a, b in carried])
    return f"""  br label %{tag}.loop
{tag}.loop:
  %{tag} = phi i64 [ {lo}, %{before} ], [ %{tag}.next, %{end} ]{phis}
{body}
  %{tag}.next = add nuw i64 %{tag}, {step}
  %{tag}.more = icmp ult i64 %{tag}.next, {hi}
  br i1 %{tag}.more, label %{tag}.loop, label %{tag}.done
{tag}.done:"""


def _unrolled(hi: str, body: str, *, lo: str, times: int = 4) -> str:
    """As `_loop` of `%i` over a body of one block, a few elements at a time. What follows is block `end`."""
    made = "|".join(["i", *[re.escape(x) for x in re.findall(r"^  %([\w.]+) =", body, re.MULTILINE)]])
    copies = []
    for k in range(times):
        renamed = re.sub(rf"%({made})(?![\w.])", rf"%\1.{k}", body)
        copies.append(f"  %i.{k} = add i64 %i, {k}\n{renamed}")
    rest = re.sub(r"%i(?![\w.])", "%r", body)
    return f"""  %size = sub i64 {hi}, {lo}
  %whole = and i64 %size, {-times}
  %middle = add i64 {lo}, %whole
  %some = icmp ne i64 %whole, 0
  br i1 %some, label %several, label %rest
several:
{_loop("i", "several", "%middle", chr(10).join(copies), lo=lo, step=times)}
  br label %rest
rest:
  %more = icmp ult i64 %middle, {hi}
  br i1 %more, label %single, label %end
single:
{_loop("r", "single", hi, rest, lo="%middle")}
  br label %end
end:"""


class SortText:
    """The functions for one layout: each method gives (name, text).

    `k` is the type of a key's bits, `w` that of the word it is kept in. Elements are `t`: one word, or (position, key).
    `stats` is that of the piece; PLAN words of it say how the whole row is sorted.
    """

    def __init__(self, layout: Layout, vector_bytes: int) -> None:
        self.layout = layout
        self.vector_bytes = vector_bytes
        self.key = layout.key
        self.k = f"i{layout.key.bits}"
        self.w = f"i{layout.key_bits}"
        self.t = f"<2 x {self.w}>" if layout.carries else self.w
        self.align = layout.key_bits // 8
        self.form = f"{layout.key}.{'places' if layout.carries else 'keys'}.{layout.digit_bits}"

    def _part(self, array: str, i: str, part: int, out: str) -> str:
        """Lines that load part 0 (position) or 1 (key) of an element, or its only part, as i64."""
        width = 1 + self.layout.carries
        return (
            f"  {out}.at = getelementptr [{width} x {self.w}], ptr {array}, i64 {i}, i64 {min(part, width - 1)}\n"
            f"  {out}.word = load {self.w}, ptr {out}.at, align {self.align}\n"
            + _cast(f"{out}.word", self.layout.key_bits, 64, out)
        )

    @property
    def _lanes(self) -> int:
        return 8 * self.vector_bytes // self.key.bits

    @property
    def declarations(self) -> list[str]:
        """What the functions call."""
        v = f"<{self._lanes} x {self.k}>"
        suffix = f"v{self._lanes}{self.k}"
        return [
            *DECLARATIONS,
            *[f"declare {v} @llvm.{fold}.{suffix}({v}, {v})" for fold in ("umin", "umax")],
            *[f"declare {self.k} @llvm.vector.reduce.{fold}.{suffix}({v})" for fold in ("umin", "umax", "or")],
        ]

    def _key(self, i: str) -> str:
        """Lines that load the bits `%x` of element i of the row and make its `%key`."""
        return f"""  %from.at = getelementptr {self.k}, ptr %from, i64 {i}
  %x = load {self.k}, ptr %from.at, align {self.key.itemsize}
{ordered_key(self.key, "%x", "%key")}"""

    def _digit(self) -> str:
        return f"""{self._part("%e", "%i", 1, "%word")}
  %above = sub i64 %word, %min
  %down = lshr i64 %above, %shift
  %digit = and i64 %down, %mask"""

    def load(self) -> tuple[str, str]:
        """Elements lo .. hi-1 of the row at `from`, into `to`; `stats` of them. At least as many as lanes: the last
        vector may begin earlier than the one before it ends.
        """
        name, lanes, bits = f"@fgrad.sort.load.{self.form}", self._lanes, self.key.bits
        v, wide = f"<{lanes} x {self.k}>", f"<{lanes} x {self.w}>"
        suffix = f"v{lanes}{self.k}"
        store = f"  store {v} %key, ptr %to.at, align {self.align}"
        if self.layout.carries:
            both, pair = f"<{2 * lanes} x {self.w}>", ", ".join([f"i32 {j}, i32 {lanes + j}" for j in range(lanes)])
            numbers = ", ".join([f"{self.w} {j}" for j in range(lanes)])
            store = f"""{_cast("%i", 64, self.layout.key_bits, "%i.word")}
{_splat("%i.word", self.w, lanes, "%i.lanes")}
  %places = add {wide} %i.lanes, <{numbers}>
  %words = {"zext" if bits < self.layout.key_bits else "bitcast"} {v} %key to {wide}
  %both = shufflevector {wide} %places, {wide} %words, <{2 * lanes} x i32> <{pair}>
  store {both} %both, ptr %to.at, align {self.align}"""
        body = f"""  %i = call i64 @llvm.umin.i64(i64 %at, i64 %last)
  %from.at = getelementptr {self.k}, ptr %from, i64 %i
  %x = load {v}, ptr %from.at, align {self.key.itemsize}
{ordered_key(self.key, "%x", "%key", lanes)}
  %to.at = getelementptr {self.t}, ptr %to, i64 %i
{store}
  %min.next = call {v} @llvm.umin.{suffix}({v} %min, {v} %key)
  %max.next = call {v} @llvm.umax.{suffix}({v} %max, {v} %key)
  %other = xor {v} %key, %firsts
  %diff.next = or {v} %diff, %other
{element_of(self.key, "%key", "%back", lanes)}
  %change = xor {v} %back, %x
  %odd.next = or {v} %odd, %change"""
        loop = _loop("at", "entry", "%hi", body, lo="%lo", step=lanes, carried=[
            ("%min", v, f"splat ({self.k} -1)", "%min.next"), ("%max", v, "zeroinitializer", "%max.next"),
            ("%diff", v, "zeroinitializer", "%diff.next"), ("%odd", v, "zeroinitializer", "%odd.next"),
        ])  # fmt: skip
        folds = []
        for x, fold in (("min", "umin"), ("max", "umax"), ("diff", "or"), ("odd", "or")):
            folds.append(f"  %{x}.one = call {self.k} @llvm.vector.reduce.{fold}.{suffix}({v} %{x}.next)")
            folds.append(_cast(f"%{x}.one", bits, 64, f"%{x}.wide"))
        return name, f"""define internal void {name}(ptr %from, ptr %to, ptr %stats, i64 %lo, i64 %hi) #0 {{
entry:
  %first.x = load {self.k}, ptr %from, align {self.key.itemsize}
{ordered_key(self.key, "%first.x", "%first")}
{_splat("%first", self.k, lanes, "%firsts")}
  %last = sub i64 %hi, {lanes}
{loop}
{chr(10).join(folds)}
{_store_words("%stats", 0, ["%min.wide", "%max.wide", "%diff.wide", "%odd.wide"])}
  ret void
}}"""

    def plan(self) -> tuple[str, str]:
        """How the row is sorted, from the stats of all pieces, into the stats of this one.

        Smallest key, lowest bit of the first digit, passes, bits of a digit, odd bits.
        """
        name, bits = f"@fgrad.sort.plan.{self.layout.digit_bits}", self.layout.digit_bits
        lines = [f"  %p = getelementptr i8, ptr %all, i64 %at\n{_load_words('%p', 0, ['%a', '%b', '%c', '%d'])}"]
        for x, fold in (("min", "call i64 @llvm.umin.i64(i64 %min, i64 %a)"), ("diff", "or i64 %diff, %c"),
                        ("max", "call i64 @llvm.umax.i64(i64 %max, i64 %b)"), ("odd", "or i64 %odd, %d")):  # fmt: skip
            lines.append(f"  %{x}.next = {fold}")
        loop = _loop("at", "entry", "%end", "\n".join(lines), step=8 * STATS_WORDS, carried=[
            (f"%{x}", "i64", "-1" if x == "min" else "0", f"%{x}.next") for x in ("min", "max", "diff", "odd")
        ])  # fmt: skip
        return name, f"""define internal void {name}(ptr %all, i64 %pieces, ptr %stats) #0 {{
entry:
  %end = mul i64 %pieces, {8 * STATS_WORDS}
{loop}
  %zeros = call i64 @llvm.cttz.i64(i64 %diff.next, i1 false)
  %low = and i64 %zeros, 63
  %range = sub i64 %max.next, %min.next
  %shifted = lshr i64 %range, %low
  %above = call i64 @llvm.ctlz.i64(i64 %shifted, i1 false)
  %bits = sub i64 64, %above
  %more = add i64 %bits, {bits - 1}
  %passes = udiv i64 %more, {bits}
  %some = call i64 @llvm.umax.i64(i64 %passes, i64 1)
  %up = add i64 %bits, %some
  %down = sub i64 %up, 1
  %width = udiv i64 %down, %some
{_store_words("%stats", PLAN, ["%min.next", "%low", "%passes", "%width", "%odd.next"])}
  ret void
}}"""

    def count(self) -> tuple[str, str]:
        """How often each digit occurs in elements lo .. hi-1."""
        name = f"@fgrad.sort.count.{self.form}"
        clear = f"""  %clear.at = getelementptr i32, ptr %counts, i64 %clear
  store <{AT_ONCE} x i32> zeroinitializer, ptr %clear.at, align 4"""
        body = f"""{self._digit()}
  %count.at = getelementptr i32, ptr %counts, i64 %digit
  %count = load i32, ptr %count.at, align 4
  %count.next = add i32 %count, 1
  store i32 %count.next, ptr %count.at, align 4"""
        return name, f"""define internal void {name}(ptr %e, ptr %counts, {_SLICE}) #0 {{
entry:
{_loop("clear", "entry", "%mask", clear, step=AT_ONCE)}
{_unrolled("%hi", body, lo="%lo")}
  ret void
}}"""

    def places(self) -> tuple[str, str]:
        """Where the first element of this piece with each digit goes, from the counts of all pieces."""
        name, v = f"@fgrad.sort.places.{self.layout.bins}", f"<{AT_ONCE} x i32>"
        inner = _loop("q", "b.loop", "%pieces", f"""  %row = mul i64 %q, {self.layout.bins}
  %bin = add i64 %row, %b
  %counts.at = getelementptr i32, ptr %counts, i64 %bin
  %here = load {v}, ptr %counts.at, align 4
  %total.next = add {v} %total, %here
  %earlier = icmp ult i64 %q, %piece
  %mine = select i1 %earlier, {v} %here, {v} zeroinitializer
  %before.next = add {v} %before, %mine""", carried=[
            ("%total", v, "zeroinitializer", "%total.next"), ("%before", v, "zeroinitializer", "%before.next"),
        ])  # fmt: skip
        lines = [inner]
        for j in range(AT_ONCE):
            now = "%running" if j == 0 else f"%running{j}"
            after = "%running.next" if j == AT_ONCE - 1 else f"%running{j + 1}"
            lines.append(f"""  %total{j} = extractelement {v} %total.next, i64 {j}
  %before{j} = extractelement {v} %before.next, i64 {j}
  %place{j} = add i32 {now}, %before{j}
  %bin{j} = add i64 %b, {j}
  %place.at{j} = getelementptr i32, ptr %places, i64 %bin{j}
  store i32 %place{j}, ptr %place.at{j}, align 4
  {after} = add i32 {now}, %total{j}""")
        outer = _loop("b", "entry", "%mask", "\n".join(lines), step=AT_ONCE, end="q.done",
                      carried=[("%running", "i32", "0", "%running.next")])  # fmt: skip
        parameters = "ptr %counts, ptr %places, i64 %pieces, i64 %piece, i64 %mask"
        return name, f"define internal void {name}({parameters}) #0 {{\nentry:\n{outer}\n  ret void\n}}"

    def move(self) -> tuple[str, str]:
        """Elements lo .. hi-1 to the places of their digits."""
        name = f"@fgrad.sort.move.{self.form}"
        element = f"  %element = add {self.w} %word.word, 0"
        if self.layout.carries:
            element = f"""  %e.at = getelementptr {self.t}, ptr %e, i64 %i
  %element = load {self.t}, ptr %e.at, align {self.align}"""
        body = f"""{self._digit()}
{element}
  %place.at = getelementptr i32, ptr %places, i64 %digit
  %place = load i32, ptr %place.at, align 4
  %place.next = add i32 %place, 1
  store i32 %place.next, ptr %place.at, align 4
  %place.wide = zext i32 %place to i64
  %to.at = getelementptr {self.t}, ptr %to, i64 %place.wide
  store {self.t} %element, ptr %to.at, align {self.align}"""
        return name, f"""define internal void {name}(ptr %e, ptr %to, ptr %places, {_SLICE}) #0 {{
entry:
{_unrolled("%hi", body, lo="%lo")}
  ret void
}}"""

    def phase(self) -> tuple[str, str]:
        """Phase 0 loads; then one phase counts and one moves, by turns, as long as there are passes.

        stats, counts: of the first piece.
        """
        name, size = f"@fgrad.sort.phase.{self.form}", 8 * STATS_WORDS
        slice_ = "i64 %lo, i64 %hi, i64 %min, i64 %shift, i64 %mask"
        own = f"""  %stats.own = mul i64 %piece, {size}
  %own = getelementptr i8, ptr %stats, i64 %stats.own
  %table = mul i64 %piece, {self.layout.bins}
  %counts.own = getelementptr i32, ptr %counts, i64 %table
  %places.own = getelementptr i32, ptr %places, i64 %table"""
        parameters = f"i64 %phase, i64 %piece, i64 %pieces, ptr %from, {_SPACE}, i64 %lo, i64 %hi"
        return name, f"""define internal void {name}({parameters}) #0 {{
entry:
{own}
  switch i64 %phase, label %sort [ i64 0, label %load
    i64 1, label %plan ]
load:
  call void {self.load()[0]}(ptr %from, ptr %a, ptr %own, i64 %lo, i64 %hi)
  ret void
plan:
  call void {self.plan()[0]}(ptr %stats, i64 %pieces, ptr %own)
  br label %sort
sort:
{_load_words("%own", PLAN, ["%min", "%low", "%passes", "%width"])}
  %turn = sub i64 %phase, 1
  %pass = lshr i64 %turn, 1
  %wanted = icmp ult i64 %pass, %passes
  br i1 %wanted, label %go, label %over
go:
  %up = mul i64 %pass, %width
  %shift = add i64 %low, %up
  %bins = shl i64 1, %width
  %mask = sub i64 %bins, 1
  %second = trunc i64 %pass to i1
  %e = select i1 %second, ptr %b, ptr %a
  %to = select i1 %second, ptr %a, ptr %b
  %moves = trunc i64 %turn to i1
  br i1 %moves, label %move, label %count
count:
  call void {self.count()[0]}(ptr %e, ptr %counts.own, {slice_})
  ret void
move:
  call void {self.places()[0]}(ptr %counts, ptr %places.own, i64 %pieces, i64 %piece, i64 %mask)
  call void {self.move()[0]}(ptr %e, ptr %to, ptr %places.own, {slice_})
  ret void
over:
  ret void
}}"""

    # ---- results
    def _result(self, what: str, parameters: str, body: str) -> tuple[str, str]:
        """A function of `stats` and both arrays of elements; `%e` is where they are sorted, `%odd` not 0 if odd."""
        name = f"@fgrad.sort.{what}.{self.form}"
        return name, f"""define internal void {name}(ptr %stats, ptr %a, ptr %b, {parameters}) #0 {{
entry:
{_load_words("%stats", PLAN + 2, ["%passes", "%width", "%odd"])}
  %second = trunc i64 %passes to i1
  %e = select i1 %second, ptr %b, ptr %a
{body}
  ret void
}}"""

    def keys(self) -> tuple[str, str]:
        """Sorted keys lo .. hi-1 of the row at `from`."""
        lanes = 1 if self.layout.carries else self._lanes
        v = _types(self.key.bits, lanes)[0]
        load = f"""  %i = call i64 @llvm.umin.i64(i64 %at, i64 %last)
  %e.at = getelementptr {self.k}, ptr %e, i64 %i
  %key = load {v}, ptr %e.at, align {self.key.itemsize}"""
        if self.layout.carries:
            load = f"""{self._part("%e", "%i", 1, "%word")}
{_cast("%word", 64, self.key.bits, "%key")}"""
        store = f"""{element_of(self.key, "%key", "%value", lanes)}
  %to.at = getelementptr {self.k}, ptr %to, i64 %i
  store {v} %value, ptr %to.at, align {self.key.itemsize}"""
        if self.layout.carries:
            made = _unrolled("%hi", f"{load}\n{store}", lo="%lo")
        else:
            loop = _loop("at", "entry", "%hi", f"{load}\n{store}", lo="%lo", step=lanes)
            made = f"  %last = sub i64 %hi, {lanes}\n{loop}"
        if not self.layout.carries:
            return self._result("keys", "ptr %to, i64 %lo, i64 %hi", made)
        return self._result("keys", "ptr %from, ptr %to, i64 %lo, i64 %hi", f"""  %is.plain = icmp eq i64 %odd, 0
  br i1 %is.plain, label %plain, label %fetch
plain:
{made}
  ret void
fetch:
{self._fetch(self.key.itemsize, "fetch")}""")

    def _fetch(self, size: int, before: str) -> str:
        t = f"i{8 * size}"
        return _loop("j", before, "%hi", f"""{self._part("%e", "%j", 0, "%place")}
  %there = getelementptr {t}, ptr %from, i64 %place
  %fetched = load {t}, ptr %there, align {size}
  %here = getelementptr {t}, ptr %to, i64 %j
  store {t} %fetched, ptr %here, align {size}""", lo="%lo")  # fmt: skip

    def payload(self, size: int) -> tuple[str, str]:
        """Elements of `size` bytes at `from`, as sorted, lo .. hi-1."""
        return self._result(f"payload{size}", "ptr %from, ptr %to, i64 %lo, i64 %hi", self._fetch(size, "entry"))

    def positions(self) -> tuple[str, str]:
        """Where the sorted elements lo .. hi-1 were, as int64."""
        body = f"""{self._part("%e", "%i", 0, "%place")}
  %to.at = getelementptr i64, ptr %to, i64 %i
  store i64 %place, ptr %to.at, align 8"""
        return self._result("positions", "ptr %to, i64 %lo, i64 %hi", _unrolled("%hi", body, lo="%lo"))

    def odd(self) -> tuple[str, str]:
        """Zeros and NaN of a row of n, where there are odd ones, into `to` in their order."""
        zero = -(1 << (self.key.bits - 1)) - (self.key in dt.ONE_ZERO)
        zero_key = zero % (1 << self.key.bits)
        nan_key = (1 << self.key.bits) - 1
        search = f"@fgrad.sort.first.{self.form}"
        body = f"""{self._key("%i")}
  %is.zero = icmp eq {self.k} %key, {zero_key}
  %is.nan = icmp eq {self.k} %key, {nan_key}
  %wanted = or i1 %is.zero, %is.nan
  %at = select i1 %is.nan, i64 %nans, i64 %zeros
  br i1 %wanted, label %write, label %next
write:
  %to.at = getelementptr {self.k}, ptr %to, i64 %at
  store {self.k} %x, ptr %to.at, align {self.key.itemsize}
  br label %next
next:
  %one.zero = zext i1 %is.zero to i64
  %one.nan = zext i1 %is.nan to i64
  %zeros.next = add i64 %zeros, %one.zero
  %nans.next = add i64 %nans, %one.nan"""
        loop = _loop("i", "some", "%n", body, end="next", carried=[
            ("%zeros", "i64", "%zero.first", "%zeros.next"), ("%nans", "i64", "%nan.first", "%nans.next"),
        ])  # fmt: skip
        name, text = self._result("odd", "ptr %from, ptr %to, i64 %n", f"""  %is.odd = icmp ne i64 %odd, 0
  br i1 %is.odd, label %some, label %none
none:
  ret void
some:
  %zero.first = call i64 {search}(ptr %e, i64 %n, i64 {zero_key})
  %nan.first = call i64 {search}(ptr %e, i64 %n, i64 {_signed64(nan_key)})
{loop}""")  # fmt: skip
        return name, f"""define internal i64 {search}(ptr %e, i64 %n, i64 %key) #0 {{
entry:
  br label %search
search:
  %lo = phi i64 [ 0, %entry ], [ %lo.next, %search ]
  %size = phi i64 [ %n, %entry ], [ %size.next, %search ]
  %half = lshr i64 %size, 1
  %i = add i64 %lo, %half
{self._part("%e", "%i", 1, "%word")}
  %less = icmp ult i64 %word, %key
  %after = add i64 %i, 1
  %rest = sub i64 %size, %half
  %rest.less = sub i64 %rest, 1
  %lo.next = select i1 %less, i64 %after, i64 %lo
  %size.next = select i1 %less, i64 %rest.less, i64 %half
  %more = icmp ugt i64 %size.next, 0
  br i1 %more, label %search, label %found
found:
  ret i64 %lo.next
}}
{text}"""

    # ---- short rows
    def ranks(self) -> tuple[str, str]:
        """The place of every element of the row at `from` when sorted: how many are smaller, or equal and before it."""
        n, w = self.layout.n, self.w
        lanes = 8 * self.vector_bytes // self.layout.key_bits
        t, b, i32 = f"<{lanes} x {w}>", f"<{lanes} x i1>", f"<{lanes} x i32>"
        vectors = range(-(-n // lanes))
        name = f"@fgrad.sort.ranks.{self.key}.{n}"
        keys = _loop("i", "entry", str(n), f"""{self._key("%i")}
{_cast("%key", self.key.bits, self.layout.key_bits, "%word")}
  %to.at = getelementptr {w}, ptr %keys, i64 %i
  store {w} %word, ptr %to.at, align {self.align}""")
        loads, counts, stores = [], [], []
        for v in vectors:
            numbers = ", ".join([f"{w} {v * lanes + i}" for i in range(lanes)])
            loads.append(f"""  %mine.at{v} = getelementptr {w}, ptr %keys, i64 {v * lanes}
  %mine{v} = load {t}, ptr %mine.at{v}, align {self.align}""")
            counts.append(f"""  %less{v} = icmp ult {t} %other, %mine{v}
  %equal{v} = icmp eq {t} %other, %mine{v}
  %early{v} = icmp ult {t} %place, <{numbers}>
  %first{v} = and {b} %equal{v}, %early{v}
  %before{v} = or {b} %less{v}, %first{v}
  %one{v} = zext {b} %before{v} to {t}
  %rank{v}.next = add {t} %rank{v}, %one{v}""")
            cut = f"trunc {t} %rank{v}.next to {i32}" if w == "i64" else f"add {i32} %rank{v}.next, zeroinitializer"
            stores.append(f"""  %cut{v} = {cut}
  %rank.at{v} = getelementptr i32, ptr %ranks, i64 {v * lanes}
  store {i32} %cut{v}, ptr %rank.at{v}, align 4""")
        body = f"""  %other.at = getelementptr {w}, ptr %keys, i64 %j
  %one.key = load {w}, ptr %other.at, align {self.align}
{_splat("%one.key", w, lanes, "%other")}
{_cast("%j", 64, self.layout.key_bits, "%j.word")}
{_splat("%j.word", w, lanes, "%place")}
""" + "\n".join(counts)
        loop = _loop("j", "i.done", str(n), body, carried=[
            (f"%rank{v}", t, "zeroinitializer", f"%rank{v}.next") for v in vectors
        ])  # fmt: skip
        lines = "\n".join([keys, *loads, loop, *stores])
        head = f"define internal void {name}(ptr %from, ptr %keys, ptr %ranks) #0 {{"
        return name, f"{head}\nentry:\n{lines}\n  ret void\n}}"


def by_rank(size: int) -> tuple[str, str]:
    """A function: element i of `size` bytes at `from` to place ranks[i] of `to`; of 0 bytes: i itself, as int64."""
    name = f"@fgrad.sort.by_rank{size}"
    t, align = (f"i{8 * size}", size) if size else ("i64", 8)
    value = f"""  %from.at = getelementptr {t}, ptr %from, i64 %i
  %x = load {t}, ptr %from.at, align {align}""" if size else "  %x = add i64 %i, 0"
    body = f"""{value}
  %rank.at = getelementptr i32, ptr %ranks, i64 %i
  %rank = load i32, ptr %rank.at, align 4
  %to.at = getelementptr {t}, ptr %to, i32 %rank
  store {t} %x, ptr %to.at, align {align}"""
    return name, f"""define internal void {name}(ptr %ranks, ptr %from, ptr %to, i64 %n) #0 {{
entry:
{_loop("i", "entry", "%n", body)}
  ret void
}}"""


def _splat(x: str, kind: str, lanes: int, out: str) -> str:
    t = f"<{lanes} x {kind}>"
    return f"""  {out}.lane = insertelement {t} poison, {kind} {x}, i64 0
  {out} = shufflevector {t} {out}.lane, {t} poison, <{lanes} x i32> zeroinitializer"""


def _signed64(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


def _words(pointer: str, first: int, names: Sequence[str], form: str) -> str:
    lines = []
    for i, x in enumerate(names):
        at = f"{x.removeprefix('%')}.word{first + i}.at"
        lines.append(f"  %{at} = getelementptr i64, ptr {pointer}, i64 {first + i}")
        lines.append("  " + form.format(x=x, at=f"%{at}"))
    return "\n".join(lines)


def _load_words(pointer: str, first: int, names: Sequence[str]) -> str:
    """Lines that load words first, first + 1, .. at `pointer`."""
    return _words(pointer, first, names, "{x} = load i64, ptr {at}, align 8")


def _store_words(pointer: str, first: int, names: Sequence[str]) -> str:
    """Lines that store words first, first + 1, .. at `pointer`."""
    return _words(pointer, first, names, "store i64 {x}, ptr {at}, align 8")
