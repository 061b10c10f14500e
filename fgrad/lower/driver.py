"""The driver: LLVM text of the entry, which runs the steps of a program.

Each call of a kernel has a frame of words (pointers) in the arena. Words that are the same for
the whole call are filled by one loop over a constant table at the start; those that move with a
loop are stored at each turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fgrad.lower.abi import CTL_CANCEL, CTL_PROGRESS, Runtime, Table
from fgrad.lower.follow import Follower
from fgrad.lower.generate import FRAME_HEAD
from fgrad.lower.kernel import Call, Kernel
from fgrad.lower.steps import Block, CondStep, HostStep, ScanStep, WhileStep
from fgrad.lower.storage import ALIGN
from fgrad.uop.dtype import DType

ZERO_BASE = -1  # a word that is a number, not an address
FEW_WORDS = 4  # are stored one by one; more are copied from a constant table
MARK_WORDS = 4  # of each measured place: first start, last end, sum of times (ns), runs
TABLE_BASE = -2  # an address inside the table itself: an inlined scalar


@dataclass(slots=True, eq=False)
class Place:
    """Where a buffer is: an address known at entry (`base` word of the table plus `offset`), or one
    that moves.

    A moving one is stored into all its `words` whenever it changes.
    """

    base: int = ZERO_BASE
    offset: int = 0
    moves: bool = False
    words: list[int] = field(default_factory=list)


class Driver(Follower[Place]):
    """Writes the entry of one program."""

    def __init__(
        self, functions: dict[int, str], params: int, inline: frozenset[int], timed: bool = False
    ) -> None:
        self.timed = timed  # whether every call of a kernel is measured, into the end of the arena
        self.sites: list[Kernel] = []  # the kernels at the places that call them, by number
        self.marks = 0  # where in the arena the measurements are
        self.functions = functions  # id of a kernel -> name of its function
        self.params = params
        self.inline = inline
        self.lines: list[str] = []
        self.count = 0
        self.block = "start"
        self.words = 0  # words of frames so far
        self.fixed: list[tuple[int, int, int]] = []  # word, base, offset
        self.copies = False

    # ---- text
    def value(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %d{self.count} = {text}")
        return f"%d{self.count}"

    def do(self, text: str) -> None:
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def fresh(self, what: str) -> str:
        self.count += 1
        return f"{what}{self.count}"

    # ---- words
    def frame(self, n: int) -> int:
        """`n` new words; the number of the first."""
        first = self.words
        self.words += n
        return first

    def bind(self, word: int, place: Place) -> None:
        """Let a word hold the address of a place."""
        if place.moves:
            place.words.append(word)
        else:
            self.fixed.append((word, place.base, place.offset))

    def word_pointer(self, i: int) -> str:
        return "%frames" if i == 0 else self.value(f"getelementptr i64, ptr %frames, i64 {i}")

    def address(self, place: Place) -> str:
        """The present address of a place, as a pointer."""
        w = self.frame(1)
        self.bind(w, place)
        return self.value(f"load ptr, ptr {self.word_pointer(w)}, align 8")

    # ---- steps
    def run(self, block: Block, arena: int, slots: Sequence[Place], outs: Sequence[Place]) -> None:
        """The steps of a block whose temporaries start at `arena`."""
        self.follow(block, slots, outs, lambda offset, _: Place(Table.ARENA, arena + offset))

    def _launch(self, kernel: Kernel, buffers: Sequence[Place]) -> None:
        first = self.frame(FRAME_HEAD + len(buffers))
        if kernel.scratch:
            self.fixed.append((first, Table.SCRATCH, 0))
            self.fixed.append((first + 1, ZERO_BASE, -1))  # the bytes of scratch, known at the end
        if any(isinstance(x, Call) for x in kernel.body):  # micro-kernels are reached through it
            self.fixed.append((first + 2, Table.RUNTIME, 0))
        for i, p in enumerate(buffers):
            self.bind(first + FRAME_HEAD + i, p)
        name = self.functions[id(kernel)]
        f = self.word_pointer(first)
        start = self.value("call i64 %clock(ptr %rt)") if self.timed else ""
        for phase in range(kernel.phases):
            if kernel.phases > 1:
                self.do(f"store i64 {phase}, ptr {self.word_pointer(first + 2)}, align 8")
            if kernel.tasks == 1:
                self.do(f"call void @{name}(ptr {f}, i64 0, i64 0)")
            else:
                self.do(f"call void %pfor(ptr %rt, ptr @{name}, ptr {f}, i64 {kernel.tasks})")
        if self.timed:
            end = self.value("call i64 %clock(ptr %rt)")
            mark = self.value(f"getelementptr i64, ptr %marks, i64 {MARK_WORDS * len(self.sites)}")
            self.do(f"call void @note_time(ptr {mark}, i64 {start}, i64 {end})")
            self.sites.append(kernel)

    def _host(self, s: HostStep, places: list[Place]) -> None:
        first = self.frame(len(s.reads) + len(s.writes))
        for i, m in enumerate((*s.reads, *s.writes)):
            self.bind(first + i, places[m])
        failed = self.value(f"call i64 %host(i64 %handle, i64 {s.call}, ptr {self.word_pointer(first)})")
        self._leave_if(self.value(f"icmp ne i64 {failed}, 0"))

    def _leave_if(self, condition: str) -> None:
        on = self.fresh("on")
        self.do(f"br i1 {condition}, label %leave, label %{on}")
        self.label(on)

    def _alive(self) -> None:
        """A turn of a loop: count progress, leave if asked to."""
        p = self.value(f"getelementptr i8, ptr %ctl, i64 {CTL_PROGRESS}")
        n = self.value(f"load i64, ptr {p}, align 8")
        self.do(f"store i64 {self.value(f'add i64 {n}, 1')}, ptr {p}, align 8")
        c = self.value(f"getelementptr i8, ptr %ctl, i64 {CTL_CANCEL}")
        asked = self.value(f"load atomic i32, ptr {c} monotonic, align 4")
        self._leave_if(self.value(f"icmp ne i32 {asked}, 0"))

    # ---- loops
    def _settle(self, at: int, place: Place, pointer: str) -> None:
        """Store `pointer` into all words of a moving place, at line position `at`."""
        extra: list[str] = []
        for w in place.words:
            self.count += 1
            extra.append(f"  %d{self.count} = getelementptr i64, ptr %frames, i64 {w}")
            extra.append(f"  store ptr {pointer}, ptr %d{self.count}, align 8")
        self.lines[at:at] = extra

    def _scan(self, s: ScanStep, places: list[Place]) -> None:
        scan = s.scan
        reads = [places[m] for m in s.reads]
        consts, init = reads[: scan.consts], reads[scan.consts : scan.consts + scan.carry]
        xs = reads[scan.consts + scan.carry :]
        results = [places[m] for m in s.writes[: len(scan.body.outs)]]
        ys = results[scan.carry :]
        now, new, turns = self._carries(scan.carry, s.in_place, init, results, s.spare, places, scan.length)
        slices = [Place(moves=True) for _ in xs]
        rows = [Place(moves=True) for _ in ys]
        x_bases = [self.address(p) for p in xs]
        y_bases = [self.address(p) for p in ys]
        loop, done = self.fresh("scan"), self.fresh("scanned")
        before = self.block
        self.do(f"br label %{loop}")
        self.label(loop)
        i = self.fresh("%turn")
        following = self.fresh("%turn")
        phi = len(self.lines)
        phis = [(self.fresh("%now"), a, b) for a, b in turns]
        t = self.value(f"sub i64 {scan.length - 1}, {i}") if scan.reverse else i
        moved: list[tuple[Place, str]] = []
        sizes = [_slice_bytes(a) for a in scan.body.params[scan.consts + scan.carry :]]
        sizes += [_slice_bytes(a) for a in scan.body.outs[scan.carry :]]
        for p, base, size in zip([*slices, *rows], [*x_bases, *y_bases], sizes, strict=True):
            offset = self.value(f"mul i64 {t}, {size}")
            moved.append((p, self.value(f"getelementptr i8, ptr {base}, i64 {offset}")))
        targets = self._targets(i, phis, s.in_place, scan.length)
        moving = [p for p, same in zip(now, s.in_place, strict=True) if not same]
        fresh = [p for p, same in zip(new, s.in_place, strict=True) if not same]
        for p, (name, _, _) in zip(moving, phis, strict=True):
            moved.append((p, name))
        moved += list(zip(fresh, targets, strict=True))
        here = len(self.lines)
        self._alive()
        work = places[s.work]
        self.run(s.body, work.offset, [*consts, *now, *slices], [*new, *rows])
        for p, pointer in moved:
            self._settle(here, p, pointer)
        self.do(f"{following} = add nsw i64 {i}, 1")
        again = self.value(f"icmp slt i64 {following}, {scan.length}")
        end = self.block
        self.do(f"br i1 {again}, label %{loop}, label %{done}")
        lines = [f"  {i} = phi i64 [ 0, %{before} ], [ {following}, %{end} ]"]
        for (name, first, _), target in zip(phis, targets, strict=True):
            lines.append(f"  {name} = phi ptr [ {first}, %{before} ], [ {target}, %{end} ]")
        self.lines[phi:phi] = lines
        self.label(done)

    def _carries(
        self,
        n: int,
        in_place: Sequence[bool],
        init: Sequence[Place],
        results: Sequence[Place],
        spare: Sequence[int],
        places: list[Place],
        length: int,
    ) -> tuple[list[Place], list[Place], list[tuple[str, str]]]:
        """-> places of the carries in the body, of their successors, and (first address, pair
        register) of movers.
        """
        now: list[Place] = []
        new: list[Place] = []
        turns: list[tuple[str, str]] = []
        spares = iter(spare)
        self._pairs: list[tuple[str, str]] = []
        for j in range(n):
            if in_place[j]:
                now.append(results[j])
                new.append(results[j])
                continue
            now.append(Place(moves=True))
            new.append(Place(moves=True))
            result, other = self.address(results[j]), self.address(places[next(spares)])
            turns.append((self.address(init[j]), ""))
            # the last turn writes into the result
            self._pairs.append((result, other) if (length - 1) % 2 == 0 else (other, result))
        return now, new, turns

    def _targets(
        self, i: str, phis: Sequence[tuple[str, str, str]], in_place: Sequence[bool], length: int
    ) -> list[str]:
        """Where this turn's successors go: the two buffers of each carry by turns."""
        if not phis:
            return []
        odd = self.value(f"trunc i64 {i} to i1")
        return [self.value(f"select i1 {odd}, ptr {b}, ptr {a}") for a, b in self._pairs]

    def _while(self, s: WhileStep, places: list[Place]) -> None:
        loop = s.loop
        n = len(loop.body.outs)
        reads = [places[m] for m in s.reads]
        consts, init = reads[: loop.consts], reads[loop.consts :]
        results = [places[m] for m in s.writes[:n]]
        now, new, turns = self._carries(n, s.in_place, init, results, s.spare, places, 1)
        pairs = self._pairs
        flag = places[s.flag]
        flag_at = self.address(flag)
        head, inside, done = self.fresh("while"), self.fresh("turn"), self.fresh("whiled")
        before = self.block
        self.do(f"br label %{head}")
        self.label(head)
        i, following = self.fresh("%turn"), self.fresh("%turn")
        phi = len(self.lines)
        names = [self.fresh("%now") for _ in turns]
        moving = [p for p, same in zip(now, s.in_place, strict=True) if not same]
        here = len(self.lines)
        self._alive()
        work = places[s.work]
        self.run(s.cond, work.offset, [*consts, *now], [flag])
        go = self.value(f"load i8, ptr {flag_at}, align 1")
        yes = self.value(f"icmp ne i8 {go}, 0")
        self.do(f"br i1 {yes}, label %{inside}, label %{done}")
        self.label(inside)
        self._pairs = pairs
        targets: list[str] = []
        if names:
            odd = self.value(f"trunc i64 {i} to i1")
            targets = [self.value(f"select i1 {odd}, ptr {b}, ptr {a}") for a, b in pairs]
        there = len(self.lines)
        self.run(s.body, work.offset, [*consts, *now], new)
        fresh = [p for p, same in zip(new, s.in_place, strict=True) if not same]
        for p, target in zip(fresh, targets, strict=True):
            self._settle(there, p, target)
        for p, name in zip(moving, names, strict=True):
            self._settle(here, p, name)
        self.do(f"{following} = add nsw i64 {i}, 1")
        end = self.block
        self.do(f"br label %{head}")
        lines = [f"  {i} = phi i64 [ 0, %{before} ], [ {following}, %{end} ]"]
        for name, (first, _), target in zip(names, turns, targets, strict=True):
            lines.append(f"  {name} = phi ptr [ {first}, %{before} ], [ {target}, %{end} ]")
        self.lines[phi:phi] = lines
        self.label(done)
        movers = [o for o, same in zip(loop.body.outs, s.in_place, strict=True) if not same]
        for name, (result, _), o in zip(names, pairs, movers, strict=True):
            self.copies = True
            self.do(f"call void @copy_bytes(ptr {result}, ptr {name}, i64 {_slice_bytes(o)})")

    def _cond(self, s: CondStep, places: list[Place]) -> None:
        reads = [places[m] for m in s.reads]
        index = self._integer(self.address(reads[0]), s.index_dtype, len(s.branches) - 1)
        work = places[s.work]
        results = [places[m] for m in s.writes[:-1]]
        names = [self.fresh("branch") for _ in s.branches]
        done = self.fresh("joined")
        cases = " ".join(f"i64 {i}, label %{name}" for i, name in enumerate(names[:-1]))
        self.do(f"switch i64 {index}, label %{names[-1]} [ {cases} ]")
        for name, b in zip(names, s.branches, strict=True):
            self.label(name)
            self.run(b, work.offset, reads[1:], results)
            self.do(f"br label %{done}")
        self.label(done)

    def _integer(self, pointer: str, dtype: DType, top: int) -> str:
        """The integer at `pointer`, clamped to 0..top."""
        x = self.value(f"load i{dtype.bits}, ptr {pointer}, align {dtype.itemsize}")
        if dtype.bits < 64:
            x = self.value(f"{'sext' if dtype.is_signed else 'zext'} i{dtype.bits} {x} to i64")
        sign = "s" if dtype.is_signed else "u"
        high = self.value(f"icmp {sign}gt i64 {x}, {top}")
        x = self.value(f"select i1 {high}, i64 {top}, i64 {x}")
        low = self.value(f"icmp slt i64 {x}, 0")
        return self.value(f"select i1 {low}, i64 0, i64 {x}")

    # ---- the whole
    def entry(self, block: Block, scratch_bytes: int) -> tuple[list[str], int]:
        """-> (text of the entry, arena bytes)."""
        slots = [
            Place(TABLE_BASE, 8 * (Table.ARGUMENTS + i)) if i in self.inline else Place(Table.ARGUMENTS + i)
            for i in range(self.params)
        ]
        outs = [Place(Table.ARGUMENTS + self.params + j) for j in range(len(block.outs))]
        # frames come after the temporaries
        self.run(block, 0, slots, outs)
        frames = -(-block.bytes // ALIGN) * ALIGN
        fixed = [(w, b, scratch_bytes if (b, o) == (ZERO_BASE, -1) else o) for w, b, o in self.fixed]
        self.marks = frames + 8 * self.words
        head = self._head(frames, fixed)
        text = [*head, *self.lines, "  br label %leave", "leave:", "  ret void", "}"]
        return text, self.marks + 8 * MARK_WORDS * len(self.sites)

    def _head(self, frames: int, fixed: list[tuple[int, int, int]]) -> list[str]:
        out = []
        few = len(fixed) <= FEW_WORDS and all(b >= 0 for _, b, _ in fixed)
        flat = [] if few else [x for row in fixed for x in row]
        if flat:
            words = ", ".join(f"i64 {x}" for x in flat)
            out.append(f"@fixed = internal constant [{len(flat)} x i64] [{words}], align 8")
        out += [
            "define void @entry(ptr %t) #0 {",
            "entry:",
            f"  %arena_at = getelementptr i64, ptr %t, i64 {int(Table.ARENA)}",
            "  %arena = load ptr, ptr %arena_at, align 8",
            f"  %frames = getelementptr i8, ptr %arena, i64 {frames}",
            "  %ctl = load ptr, ptr %t, align 8",
            f"  %rt_at = getelementptr i64, ptr %t, i64 {int(Table.RUNTIME)}",
            "  %rt = load ptr, ptr %rt_at, align 8",
        ]
        if self.sites:
            out.append(f"  %marks = getelementptr i8, ptr %arena, i64 {self.marks}")
        body = "\n".join(self.lines)
        for name, slot in (("pfor", Runtime.PFOR), ("host", Runtime.HOST), ("clock", Runtime.CLOCK)):
            if f"%{name}(" in body:
                out.append(f"  %{name}_at = getelementptr i64, ptr %rt, i64 {int(slot)}")
                out.append(f"  %{name} = load ptr, ptr %{name}_at, align 8")
        if "%host(" in body:
            out.append(f"  %handle_at = getelementptr i64, ptr %t, i64 {int(Table.HOST)}")
            out.append("  %handle = load i64, ptr %handle_at, align 8")
        if flat:
            out += _FILL.format(n=len(flat)).splitlines()
        else:
            for k, (w, b, offset) in enumerate(fixed):
                out += [
                    f"  %wa{k} = getelementptr i64, ptr %t, i64 {int(b)}",
                    f"  %wb{k} = load ptr, ptr %wa{k}, align 8",
                    f"  %wc{k} = getelementptr i8, ptr %wb{k}, i64 {offset}",
                    f"  %wd{k} = getelementptr i64, ptr %frames, i64 {w}",
                    f"  store ptr %wc{k}, ptr %wd{k}, align 8",
                ]
            out.append("  br label %start")
        out.append("start:")
        return out


_FILL = """  %here = ptrtoint ptr %t to i64
  br label %fill
fill:
  %fi = phi i64 [ 0, %entry ], [ %fn, %fill ]
  %f0 = getelementptr i64, ptr @fixed, i64 %fi
  %f1 = getelementptr i64, ptr %f0, i64 1
  %f2 = getelementptr i64, ptr %f0, i64 2
  %fw = load i64, ptr %f0, align 8
  %fb = load i64, ptr %f1, align 8
  %fo = load i64, ptr %f2, align 8
  %fs = call i64 @llvm.smax.i64(i64 %fb, i64 0)
  %fp = getelementptr i64, ptr %t, i64 %fs
  %fv = load i64, ptr %fp, align 8
  %fneg = icmp slt i64 %fb, 0
  %fz = icmp eq i64 %fb, -2
  %fx = select i1 %fz, i64 %here, i64 0
  %fy = select i1 %fneg, i64 %fx, i64 %fv
  %fr = add i64 %fy, %fo
  %ft = getelementptr i64, ptr %frames, i64 %fw
  store i64 %fr, ptr %ft, align 8
  %fn = add nuw i64 %fi, 3
  %fc = icmp ult i64 %fn, {n}
  br i1 %fc, label %fill, label %start"""

NOTE_TIME = """define internal void @note_time(ptr %m, i64 %start, i64 %end) #0 {
entry:
  %first = load i64, ptr %m, align 8
  %fresh = icmp eq i64 %first, 0
  %begin = select i1 %fresh, i64 %start, i64 %first
  store i64 %begin, ptr %m, align 8
  %m1 = getelementptr i64, ptr %m, i64 1
  store i64 %end, ptr %m1, align 8
  %m2 = getelementptr i64, ptr %m, i64 2
  %sum = load i64, ptr %m2, align 8
  %took = sub i64 %end, %start
  %total = add i64 %sum, %took
  store i64 %total, ptr %m2, align 8
  %m3 = getelementptr i64, ptr %m, i64 3
  %runs = load i64, ptr %m3, align 8
  %more = add i64 %runs, 1
  store i64 %more, ptr %m3, align 8
  ret void
}"""

COPY_BYTES = """define internal void @copy_bytes(ptr %to, ptr %from, i64 %n) #0 {
entry:
  %same = icmp eq ptr %to, %from
  br i1 %same, label %done, label %wide
wide:
  %w = phi i64 [ 0, %entry ], [ %wn, %step ]
  %wn = add i64 %w, 16
  %fits = icmp ule i64 %wn, %n
  br i1 %fits, label %step, label %bytes
step:
  %wp = getelementptr i8, ptr %from, i64 %w
  %wv = load <16 x i8>, ptr %wp, align 1
  %wq = getelementptr i8, ptr %to, i64 %w
  store <16 x i8> %wv, ptr %wq, align 1
  br label %wide
bytes:
  %b = phi i64 [ %w, %wide ], [ %bn, %one ]
  %more = icmp ult i64 %b, %n
  br i1 %more, label %one, label %done
one:
  %bp = getelementptr i8, ptr %from, i64 %b
  %bv = load i8, ptr %bp, align 1
  %bq = getelementptr i8, ptr %to, i64 %b
  store i8 %bv, ptr %bq, align 1
  %bn = add i64 %b, 1
  br label %bytes
done:
  ret void
}"""


def _slice_bytes(u: object) -> int:
    return u.size * u.dtype.itemsize  # type: ignore[attr-defined,no-any-return]
