"""The emitter: LLVM text of one function, instruction by instruction.

An instruction goes to the outermost open loop where its operands live, into the list in front of
the inner loop (its preheader); equal text at one level is emitted once. That is common-
subexpression elimination and loop-invariant motion, at one dictionary look-up an instruction.

Names are LLVM operands: registers (`%v7`) or constants. i64 values may also be Python ints,
folded here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

I64 = int | str
Lines = list["str | Lines"]


@dataclass(slots=True, eq=False)
class Level:
    """An open loop or branch: its lines, the preheader of the loop now open inside, what it
    computed.
    """

    body: Lines = field(default_factory=list)
    front: Lines | None = None
    known: dict[str, str] = field(default_factory=dict)


class Emitter:
    """Writes one function. `declarations` and `helpers` collect what the module must have beside
    it.
    """

    def __init__(
        self,
        name: str,
        parameters: str,
        declarations: set[str],
        helpers: dict[str, str],
        result: str = "void",
    ) -> None:
        self.head = f"define internal {result} @{name}({parameters}) #0 {{\nentry:"
        self.declarations = declarations
        self.helpers = helpers
        self.levels = [Level()]
        self.depth: dict[str, int] = {}
        self.block = "entry"
        self.floor = 0  # instructions may not leave an open branch
        self.count = 0
        self.size = 0  # instructions so far

    # ---- instructions
    def value(self, text: str, *operands: I64, pure: bool = True) -> str:
        """The value of instruction `text`; `pure` ones are shared and leave loops."""
        depth = self.depth
        at = 0
        for o in operands:
            d = depth.get(o, 0)  # type: ignore[arg-type]
            if d > at:
                at = d
        if not pure:
            at = len(self.levels) - 1
        level = self.levels[at]
        if pure:
            found = level.known.get(text)
            if found is not None:
                return found
            if at < self.floor:
                at = self.floor
                level = self.levels[at]
                found = level.known.get(text)
                if found is not None:
                    return found
        self.count += 1
        self.size += 1
        name = f"%v{self.count}"
        (level.body if level.front is None else level.front).append(f"  {name} = {text}")
        depth[name] = at
        if pure:
            level.known[text] = name
        return name

    def do(self, text: str) -> None:
        """An instruction without a value, here."""
        self.size += 1
        self.levels[-1].body.append("  " + text)

    def declare(self, text: str) -> None:
        self.declarations.add(text)

    # ---- i64 arithmetic that folds
    def add(self, a: I64, b: I64) -> I64:
        if isinstance(a, int):
            if isinstance(b, int):
                return a + b
            a, b = b, a
        if b == 0:
            return a
        return self.value(f"add nsw i64 {a}, {b}", a, b)

    def mul(self, a: I64, k: int) -> I64:
        if isinstance(a, int):
            return a * k
        if k == 1:
            return a
        if k == 0:
            return 0
        if k > 0 and k & (k - 1) == 0:
            return self.value(f"shl nsw i64 {a}, {k.bit_length() - 1}", a)
        return self.value(f"mul nsw i64 {a}, {k}", a)

    def mul2(self, a: I64, b: I64) -> I64:
        if isinstance(b, int):
            return self.mul(a, b)
        if isinstance(a, int):
            return self.mul(b, a)
        return self.value(f"mul nsw i64 {a}, {b}", a, b)

    def minimum(self, a: I64, b: I64) -> I64:
        return self._extreme("smin", min, a, b)

    def maximum(self, a: I64, b: I64) -> I64:
        return self._extreme("smax", max, a, b)

    def _extreme(self, name: str, fold: Callable[[int, int], int], a: I64, b: I64) -> I64:
        if isinstance(a, int) and isinstance(b, int):
            return fold(a, b)
        self.declare(f"declare i64 @llvm.{name}.i64(i64, i64)")
        return self.value(f"call i64 @llvm.{name}.i64(i64 {a}, i64 {b})", a, b)

    def pointer(self, base: str, offset: I64, element: str = "i8") -> str:
        """base + offset elements."""
        if offset == 0:
            return base
        return self.value(f"getelementptr {element}, ptr {base}, i64 {offset}", base, offset)

    # ---- control
    def loop(
        self,
        lo: I64,
        hi: I64,
        step: int,
        carried: Sequence[tuple[str, str]],
        body: Callable[[I64, list[str]], Sequence[str]],
    ) -> list[str]:
        """Run `body(position, values)` for lo, lo+step, .. < hi; it returns the carried values'
        successors.

        `carried` gives (type, first value). Runs at least once. With constant bounds and one
        pass no loop is made.
        """
        if isinstance(lo, int) and isinstance(hi, int) and lo + step >= hi:
            assert lo < hi, "a loop over nothing"
            return list(body(lo, [c for _, c in carried]))
        outer = self.levels[-1]
        saved, before = outer.front, self.block
        front: Lines = []
        outer.body.append(front)
        outer.front = front
        self.count += 1
        k = self.count
        level = Level()
        self.levels.append(level)
        d = len(self.levels) - 1
        position, following = f"%i{k}", f"%n{k}"
        values = [f"%p{k}.{j}" for j in range(len(carried))]
        for x in (position, *values):
            self.depth[x] = d
        phis: Lines = []
        level.body += [f"L{k}:", phis]
        self.block = f"L{k}"
        after = list(body(position, values))
        level.body += [
            f"  {following} = add nsw i64 {position}, {step}",
            f"  %c{k} = icmp slt i64 {following}, {hi}",
            f"  br i1 %c{k}, label %L{k}, label %X{k}",
        ]
        phis.append(f"  {position} = phi i64 [ {lo}, %{before} ], [ {following}, %{self.block} ]")
        for (kind, first), value, new in zip(carried, values, after, strict=True):
            phis.append(f"  {value} = phi {kind} [ {first}, %{before} ], [ {new}, %{self.block} ]")
        self.size += 4 + len(values)
        self.levels.pop()
        outer.front = saved
        outer.body += [f"  br label %L{k}", level.body, f"X{k}:"]
        self.block = f"X{k}"
        for x in after:
            if self.depth.get(x, 0) >= d:
                self.depth[x] = d - 1
        return after

    def branch(
        self,
        condition: str,
        then: Callable[[], Sequence[tuple[str, str]]],
        otherwise: Sequence[str] = (),
    ) -> list[str]:
        """Run `then` only where the i1 `condition` is true; it returns (type, value) pairs,
        `otherwise` their values where it is false. What `then` computes stays inside."""
        self.count += 1
        k = self.count
        outer = self.levels[-1]
        before, floor, saved = self.block, self.floor, outer.front
        level = Level()
        self.levels.append(level)
        d = self.floor = len(self.levels) - 1
        level.body.append(f"T{k}:")
        self.block = f"T{k}"
        made = then()
        level.body.append(f"  br label %E{k}")
        inside = self.block
        self.levels.pop()
        self.floor = floor
        outer.front = saved
        outer.body += [f"  br i1 {condition}, label %T{k}, label %E{k}", level.body, f"E{k}:"]
        self.block = f"E{k}"
        self.size += 3
        out = []
        for j, ((kind, a), b) in enumerate(zip(made, otherwise, strict=True)):
            name = f"%q{k}.{j}"
            outer.body.append(f"  {name} = phi {kind} [ {a}, %{inside} ], [ {b}, %{before} ]")
            self.depth[name] = d - 1
            out.append(name)
        return out

    def finish(self, result: str = "ret void") -> str:
        """The whole function."""
        out = [self.head]
        _flatten(self.levels[0].body, out)
        out.append(f"  {result}\n}}")
        return "\n".join(out)


def _flatten(lines: Lines, out: list[str]) -> None:
    for x in lines:
        if isinstance(x, str):
            out.append(x)
        else:
            _flatten(x, out)
