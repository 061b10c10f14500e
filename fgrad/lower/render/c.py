"""A lowered program as one C file: a function for each kernel, and `void entry(int64_t *t)`.

For reading, and for a system compiler where LLVM is not wanted. The table `t` is that of
`lower.abi`; tasks run one after the other in the caller's thread, special forms (contractions,
transposes) as their plain meaning. Compile with `cc -std=c11 -O2 -shared -fPIC file.c -lm`: ISO
mode keeps gcc from fusing multiplications and additions, so that results agree with the
interpreter's to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.lower.abi import CTL_CANCEL, CTL_PROGRESS, Runtime, Table
from fgrad.lower.follow import Follower
from fgrad.lower.kernel import Kernel
from fgrad.lower.key import structural_key
from fgrad.lower.pipeline import Lowered
from fgrad.lower.render.c_helpers import INCLUDES, Helpers
from fgrad.lower.render.c_kernel import CKernel, c_name
from fgrad.lower.render.c_text import c_type, live
from fgrad.lower.steps import Block, CondStep, HostStep, ScanStep, WhileStep
from fgrad.uop.node import UOp

_LEAVE = f"""static inline bool fg_leave(char *ctl)
{{
    /* a turn of a loop: count progress, leave if asked to */
    ++*(int64_t *)(ctl + {CTL_PROGRESS});
    return *(volatile int32_t *)(ctl + {CTL_CANCEL}) != 0;
}}"""


def render_c(lowered: Lowered, inline: frozenset[int] = frozenset()) -> str:
    """The C text of a program.

    inline  slots whose word of the table holds the scalar's bits, as given to `lower`
    """
    helpers = Helpers()
    names: dict[int, str] = {}
    known: dict[object, str] = {}
    kernels: list[str] = []
    for k in lowered.kernels:
        key = structural_key(k)
        if key not in known:
            known[key] = c_name(k.name)
            kernels.append(CKernel(k, helpers).text())
        names[id(k)] = known[key]
    entry = _Entry(names, helpers).text(lowered.block, inline)
    return "\n\n".join([INCLUDES, *helpers.texts.values(), *kernels, entry]) + "\n"


class _Entry(Follower[str]):
    """Writes the driver. Memories are names of pointers, or sums of one and an offset."""

    def __init__(self, names: dict[int, str], helpers: Helpers) -> None:
        self.names = names
        self.helpers = helpers
        self.lines: list[str] = []
        self.indent = 1
        self.count = 0

    def text(self, block: Block, inline: frozenset[int]) -> str:
        """The whole function."""
        first = int(Table.ARGUMENTS)
        params = [
            self._pointer(f"(char *)&t[{first + i}]" if i in inline else f"(char *)t[{first + i}]")
            for i in range(len(block.params))
        ]
        first += len(params)
        outs = [self._pointer(f"(char *)t[{first + j}]") for j in range(len(block.outs))]
        arena = self._pointer(f"(char *)t[{int(Table.ARENA)}]")
        scratch = self._pointer(f"(char *)t[{int(Table.SCRATCH)}]")
        self.scratch = scratch
        self._block(block, arena, params, outs)
        return "\n".join(["void entry(int64_t *t)", "{", *live(self.lines), "}"])

    # ---- lines
    def _do(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def _open(self, text: str) -> None:
        self._do(text + " {" if text else "{")
        self.indent += 1

    def _close(self, text: str = "}") -> None:
        self.indent -= 1
        self._do(text)

    def _name(self, what: str) -> str:
        self.count += 1
        return f"{what}{self.count}"

    def _pointer(self, text: str) -> str:
        name = self._name("p")
        self._do(f"char *const {name} = {text};")
        return name

    # ---- steps
    def _block(self, block: Block, arena: str, params: Sequence[str], outs: Sequence[str]) -> None:
        self.follow(block, params, outs, lambda at, _: f"{arena} + {at}" if at else arena)

    def _launch(self, kernel: Kernel, buffers: Sequence[str]) -> None:
        self._do(f"{self.names[id(kernel)]}((char *[]){{{', '.join(buffers)}}}, {self.scratch});")

    def _host(self, s: HostStep, places: list[str]) -> None:
        buffers = [places[m] for m in (*s.reads, *s.writes)]
        handle, slot = f"t[{int(Table.HOST)}]", int(Runtime.HOST)
        function = "(int64_t (*)(int64_t, int64_t, char **))"
        call = f"({function}((int64_t *)t[{int(Table.RUNTIME)}])[{slot}])"
        self._open(f"if ({call}({handle}, {s.call}, (char *[]){{{', '.join(buffers)}}}) != 0)")
        self._do("return;")
        self._close()

    def _alive(self) -> None:
        leave = self.helpers.need("fg_leave", lambda: _LEAVE)
        self._open(f"if ({leave}((char *)t[{int(Table.CTL)}]))")
        self._do("return;")
        self._close()

    # ---- loops
    def _carries(
        self, s: ScanStep | WhileStep, init: Sequence[str], places: list[str], last: int
    ) -> tuple[list[str], list[tuple[str, str]]]:
        """-> (variables of the present memories, for each those of even and odd turns)."""
        now: list[str] = []
        pairs: list[tuple[str, str]] = []
        spare = iter(s.spare)
        for j, (same, first) in enumerate(zip(s.in_place, init, strict=True)):
            result = places[s.writes[j]]
            if same:
                now.append(result)
                pairs.append((result, result))
                continue
            other = places[next(spare)]
            pairs.append((result, other) if last % 2 == 0 else (other, result))
            now.append(self._name("now"))
            self._do(f"char *{now[-1]} = {first};")
        return now, pairs

    def _successors(
        self, s: ScanStep | WhileStep, pairs: Sequence[tuple[str, str]], turn: str
    ) -> list[str]:
        return [
            even if same else self._pointer(f"{turn} % 2 != 0 ? {odd} : {even}")
            for same, (even, odd) in zip(s.in_place, pairs, strict=True)
        ]

    def _advance(self, s: ScanStep | WhileStep, now: Sequence[str], new: Sequence[str]) -> None:
        for same, a, b in zip(s.in_place, now, new, strict=True):
            if not same:
                self._do(f"{a} = {b};")

    def _scan(self, s: ScanStep, places: list[str]) -> None:
        scan = s.scan
        reads = [places[m] for m in s.reads]
        first = scan.consts + scan.carry
        ys = [places[m] for m in s.writes[scan.carry : len(scan.body.outs)]]
        self._open("")
        now, pairs = self._carries(s, reads[scan.consts : first], places, scan.length - 1)
        i = self._name("i")
        self._open(f"for (int64_t {i} = 0; {i} < {scan.length}; {i}++)")
        self._alive()
        t = f"({scan.length - 1} - {i})" if scan.reverse else i
        rows = [
            self._pointer(f"{base} + {t} * {_bytes(u)}")
            for base, u in zip(
                [*reads[first:], *ys],
                [*scan.body.params[first:], *scan.body.outs[scan.carry :]],
                strict=True,
            )
        ]
        xs = len(reads) - first
        new = self._successors(s, pairs, i)
        params = [*reads[: scan.consts], *now, *rows[:xs]]
        self._block(s.body, self._work(s.work, places), params, [*new, *rows[xs:]])
        self._advance(s, now, new)
        self._close()
        self._discard(s, now)
        self._close()

    def _while(self, s: WhileStep, places: list[str]) -> None:
        consts = s.loop.consts
        reads = [places[m] for m in s.reads]
        self._open("")
        now, pairs = self._carries(s, reads[consts:], places, 0)
        i = self._name("i")
        self._open(f"for (int64_t {i} = 0;; {i}++)")
        self._alive()
        work = self._work(s.work, places)
        flag = self._pointer(places[s.flag])
        self._block(s.cond, work, [*reads[:consts], *now], [flag])
        self._open(f"if (!*{flag})")
        self._do("break;")
        self._close()
        new = self._successors(s, pairs, i)
        self._block(s.body, work, [*reads[:consts], *now], new)
        self._advance(s, now, new)
        self._close()
        for same, x, (result, _), o in zip(s.in_place, now, pairs, s.loop.body.outs, strict=True):
            if not same:
                self._do(f"memmove({result}, {x}, {_bytes(o)});")
        self._close()

    def _cond(self, s: CondStep, places: list[str]) -> None:
        reads = [places[m] for m in s.reads]
        results = [places[m] for m in s.writes if m != s.work]
        t = c_type(s.index_dtype)
        last = len(s.branches) - 1
        self._open("")
        index = self._name("index")
        self._do(f"const {t} {index} = *({t} *)({reads[0]});")
        for k, b in enumerate(s.branches):
            if last == 0:
                self._do(f"(void){index};")
                self._open("")
            elif k == 0:
                self._open(f"if ({index} <= 0)")
            else:
                self._open(f"else if ({index} == {k})" if k < last else "else")
            self._block(b, self._work(s.work, places), reads[1:], results)
            self._close()
        self._close()

    def _work(self, memory: int, places: list[str]) -> str:
        return self._pointer(places[memory])

    def _discard(self, s: ScanStep, now: Sequence[str]) -> None:
        """The last turn wrote the results: nobody reads these variables any more."""
        for same, x in zip(s.in_place, now, strict=True):
            if not same:
                self._do(f"(void){x};")


def _bytes(u: UOp) -> int:
    return u.size * u.dtype.itemsize
