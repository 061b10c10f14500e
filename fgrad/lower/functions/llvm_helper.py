"""A function as a complete LLVM function, to be called instead of written out at every use.

Long functions cost more to compile than to call. In a helper the rare reduction of large
trigonometric arguments also stands behind a real branch.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from fgrad.lower.functions.llvm_machine import LlvmMachine
from fgrad.lower.functions.machine import Kind
from fgrad.lower.functions.table import FUNCTIONS

_NAME = re.compile(r"%v\d+")


@dataclass(frozen=True, slots=True)
class Helper:
    """LLVM text that defines one function.

    name          with the @, e.g. "@fgrad.sin.v16f32"; operands and result are `type`
    type          of the operands and the result, e.g. "<16 x float>"
    text          the definition, with internal linkage
    declarations  of the intrinsics it calls
    instructions  in the text, branches included
    """

    name: str
    type: str
    text: str
    declarations: frozenset[str]
    instructions: int


class _HelperMachine(LlvmMachine):
    """Collects the lines of one function body, equal instructions once."""

    def __init__(self, lanes: int, p: int, fma: bool) -> None:
        super().__init__(self._place, lanes, p, fma)
        self.lines: list[str] = []
        self.block = "entry"
        self._known: dict[str, str] = {}
        self._count = 0

    def _place(self, text: str, *operands: str) -> str:
        name = self._known.get(text)
        if name is None:
            name = self._known[text] = f"%v{self._count}"
            self._count += 1
            self.lines.append(f"  {name} = {text}")
        return name

    def _any(self, mask: str) -> str:
        if self.lanes == 1:
            return mask
        bits = self.emit(f"bitcast {self.mask_type} {mask} to i{self.lanes}", mask)
        return self.emit(f"icmp ne i{self.lanes} {bits}, 0", bits)

    def branch_any(
        self,
        mask: str,
        kinds: tuple[Kind, ...],
        then: Callable[[], tuple[str, ...]],
        otherwise: Callable[[], tuple[str, ...]],
    ) -> tuple[str, ...]:
        usual = otherwise()
        rare_block, join_block = f"rare{self._count}", f"join{self._count}"
        taken = self._any(mask)
        self.lines += [f"  br i1 {taken}, label %{rare_block}, label %{join_block}"]
        before, known_before = self.block, dict(self._known)
        self.lines.append(f"{rare_block}:")
        self.block = rare_block
        rare = [
            self.select(kind, mask, x, y) for kind, x, y in zip(kinds, then(), usual, strict=True)
        ]
        self.lines += [f"  br label %{join_block}", f"{join_block}:"]
        rare_end, self.block = self.block, join_block
        self._known = known_before  # the rare block does not dominate what follows
        return tuple(
            self.emit(f"phi {self.type_of(kind)} [ {y}, %{before} ], [ {x}, %{rare_end} ]", x, y)
            for kind, x, y in zip(kinds, rare, usual, strict=True)
        )


def _live(lines: list[str], result: str) -> list[str]:
    """The lines that matter: blocks, branches, and what the result needs."""
    needed = {result}
    kept: list[str] = []
    for line in reversed(lines):
        name, equals, rest = line.strip().partition(" = ")
        if not equals:
            rest = name
        elif name not in needed:
            continue
        needed.update(_NAME.findall(rest))
        kept.append(line)
    return kept[::-1]


@cache
def helper(name: str, lanes: int, p: int, fma: bool = True) -> Helper:
    """The function `name` of the table as an LLVM function on vectors of `lanes` (1: scalars).

    p is 24 (float) or 53 (double); `fma` as in `LlvmMachine`. Raises KeyError for a name that is
    not in the table.
    """
    function = FUNCTIONS[name]
    machine = _HelperMachine(lanes, p, fma)
    arguments = [f"%x{i}" for i in range(function.arity)]
    result = function(machine, *arguments)
    lines = _live(machine.lines, result)
    t = machine.float_type
    symbol = f"@fgrad.{name}.{machine.suffix}"
    parameters = ", ".join(f"{t} {argument}" for argument in arguments)
    text = "\n".join(
        [
            f"define internal {t} {symbol}({parameters}) noinline nounwind memory(none) {{",
            "entry:",
            *lines,
            f"  ret {t} {result}",
            "}",
        ]
    )
    instructions = sum(not line.endswith(":") for line in lines)
    return Helper(symbol, t, text, frozenset(machine.declarations), instructions)
