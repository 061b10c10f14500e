"""Text: builds the LLVM text of one function, statement by statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Value = str | int  # an SSA name, or a number known now
Carry = Sequence[tuple[str, str]]  # (type, initial value) of what a loop carries


class Text:
    """One function of `(type, name)` arguments; names are used with a leading %.

    Integer helpers (`add`, `mul`, ..) fold numbers that are known, so drivers can be written once
    for sizes known at run time and sizes known now.
    """

    def __init__(self, name: str, args: Sequence[tuple[str, str]], attributes: str = "#0") -> None:
        params = ", ".join([f"{t} %{a}" for t, a in args])
        self.lines = [f"define void @{name}({params}) {attributes} {{", "entry:"]
        self.block = "entry"
        self._serial = 0

    def fresh(self, prefix: str) -> str:
        """A new name."""
        self._serial += 1
        return f"{prefix}{self._serial}"

    def value(self, instruction: str) -> str:
        """Append an instruction that has a result; returns its name."""
        name = "%" + self.fresh("v")
        self.lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """Append an instruction without a result."""
        self.lines.append("  " + instruction)

    def label(self, name: str) -> None:
        """Start the block `name`."""
        self.lines.append(name + ":")
        self.block = name

    # ---- integers (i64)
    def add(self, a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        return a if b == 0 else self.value(f"add nsw i64 {a}, {b}")

    def sub(self, a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.value(f"sub nsw i64 {a}, {b}")

    def mul(self, a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 1:
            return b
        return a if b == 1 else self.value(f"mul nsw i64 {a}, {b}")

    def min(self, a: Value, b: Value) -> Value:
        return self.select(self.less(a, b), a, b)

    def less(self, a: Value, b: Value) -> str:
        return self.value(f"icmp slt i64 {a}, {b}")

    def equal(self, a: Value, b: Value) -> str:
        return self.value(f"icmp eq i64 {a}, {b}")

    def both(self, a: str, b: str) -> str:
        return self.value(f"and i1 {a}, {b}")

    def select(self, condition: str, a: Value, b: Value, kind: str = "i64") -> str:
        return self.value(f"select i1 {condition}, {kind} {a}, {kind} {b}")

    # ---- memory
    def at(self, pointer: str, kind: str, index: Value) -> str:
        """The address of element `index` (of type `kind`) behind `pointer`."""
        if index == 0:
            return pointer
        return self.value(f"getelementptr {kind}, ptr {pointer}, i64 {index}")

    def load(self, kind: str, pointer: str, align: int) -> str:
        return self.value(f"load {kind}, ptr {pointer}, align {align}")

    def store(self, kind: str, value: str, pointer: str, align: int) -> None:
        self.do(f"store {kind} {value}, ptr {pointer}, align {align}")

    def prefetch(self, pointer: str, write: bool = False) -> None:
        """Ask for the cache line at `pointer`; never faults."""
        self.do(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {int(write)}, i32 3, i32 1)")

    # ---- vectors
    def splat(self, kind: str, lanes: int, value: str) -> str:
        one = self.value(f"insertelement <{lanes} x {kind}> poison, {kind} {value}, i64 0")
        return self.value(
            f"shufflevector <{lanes} x {kind}> {one}, <{lanes} x {kind}> poison, "
            f"<{lanes} x i32> zeroinitializer"
        )

    def mask(self, count: Value, lanes: int) -> str:
        """A mask of the first `count` lanes (any integer)."""
        steps = ", ".join([f"i64 {i}" for i in range(lanes)])
        limit = self.splat("i64", lanes, str(count))
        return self.value(f"icmp slt <{lanes} x i64> <{steps}>, {limit}")

    # ---- control
    def branch(
        self, condition: str, then: Callable[[], None], other: Callable[[], None] | None = None
    ) -> None:
        """Run `then` where `condition` holds, else `other`."""
        yes, no, after = self.fresh("yes"), self.fresh("no"), self.fresh("after")
        self.do(f"br i1 {condition}, label %{yes}, label %{no if other else after}")
        self.label(yes)
        then()
        self.do(f"br label %{after}")
        if other:
            self.label(no)
            other()
            self.do(f"br label %{after}")
        self.label(after)

    def loop(
        self,
        start: Value,
        stop: Value,
        step: int,
        carry: Carry,
        body: Callable[..., Sequence[str]],
    ) -> list[str]:
        """`body(i, *carried) -> next carried` for i in start, start + step, ..; zero times if start
        >= stop."""
        before = self.block
        head, latch, leave = self.fresh("head"), self.fresh("latch"), self.fresh("leave")
        self.do(f"br i1 {self.less(start, stop)}, label %{head}, label %{leave}")
        self.label(head)
        index, following = "%" + self.fresh("i"), "%" + self.fresh("n")
        names = ["%" + self.fresh("p") for _ in carry]
        place = len(self.lines)
        new = list(body(index, *names))
        self.do(f"br label %{latch}")
        self.label(latch)
        self.do(f"{following} = add nsw i64 {index}, {step}")
        self.do(f"br i1 {self.less(following, stop)}, label %{head}, label %{leave}")
        phis = [f"  {index} = phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]"]
        for (kind, first), name, value in zip(carry, names, new, strict=True):
            phis.append(f"  {name} = phi {kind} [ {first}, %{before} ], [ {value}, %{latch} ]")
        self.lines[place:place] = phis
        self.label(leave)
        return [
            self.value(f"phi {kind} [ {first}, %{before} ], [ {value}, %{latch} ]")
            for (kind, first), value in zip(carry, new, strict=True)
        ]

    def each(self, start: Value, stop: Value, body: Callable[[str], None]) -> None:
        """`body(i)` for i in start .. stop - 1."""

        def run(index: str) -> Sequence[str]:
            body(index)
            return ()

        self.loop(start, stop, 1, (), run)

    def done(self) -> str:
        """The text of the finished function."""
        return "\n".join([*self.lines, "  ret void", "}"])
