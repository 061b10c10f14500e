"""Readable text of kernels."""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.lower.index import Cond, Index, Ranges
from fgrad.lower.kernel import Call, Fold, Keep, Kernel, Loop, Reduction, Sort, Stmt, Store
from fgrad.lower.views import VIEWS
from fgrad.uop.node import UOp, const_value
from fgrad.uop.op import Mode, Op


def show_kernel(k: Kernel) -> str:
    """One kernel: its buffers, then its statements."""
    out = [f"{k.name}: tasks {k.tasks}, lanes {k.width}, {k.flops} flops, {k.bytes} bytes"]
    for i, b in enumerate(k.buffers):
        use = ("r" if b.read else "") + ("w" if b.written else "")
        out.append(f"  b{i}: {b.dtype}[{b.size}] {use}")
    for i, s in enumerate(k.scratch):
        out.append(f"  s{i}: {s.dtype}[{s.size}]")
    _statements(k, k.body, 1, out)
    return "\n".join(out)


def _statements(k: Kernel, body: Sequence[Stmt], depth: int, out: list[str]) -> None:
    pad = "  " * depth
    r = k.ranges
    for s in body:
        match s:
            case Loop():
                unroll = f" x{s.unroll}" if s.unroll > 1 else ""
                end = "" if s.limit is None else f" below {k.ranges.show(s.limit)}"
                out.append(f"{pad}for r{s.range} in {s.size}{end} {s.kind.value}{unroll}:")
                _statements(k, s.body, depth + 1, out)
            case Reduction():
                names = ", ".join(f"{a.op.name} {a.node.dtype}" for a in s.accs)
                out.append(f"{pad}accumulate {names}:")
                _statements(k, s.body, depth + 1, out)
            case Fold():
                out.append(f"{pad}{s.acc.op.name} <- {show_value(k, s.value, s.index)}{_where(r, s.conds)}")
            case Store():
                sign = "=" if s.mode is Mode.SET else f"{s.mode.name}="
                gate = "" if s.gate is None else f" if {show_value(k, s.gate, s.gate_index)}"
                text = show_value(k, s.value, s.index)
                out.append(f"{pad}b{s.buffer}[{r.show(s.address)}] {sign} {text}{_where(r, s.conds)}{gate}")
            case Keep():
                out.append(f"{pad}s{s.scratch}[{r.show(s.address)}] = {show_value(k, s.node, s.index)}")
            case Call():
                out.append(f"{pad}{s.name}" + (", meaning:" if s.body else ""))
                _statements(k, s.body, depth + 1, out)
            case Sort():
                out.append(f"{pad}sort {s.rows} rows of {s.n} by b{s.sources[0]} into {s.targets}"
                           + (f", each in {s.pieces} pieces" if s.pieces > 1 else ""))


def _where(r: Ranges, conds: Sequence[Cond]) -> str:
    return "".join(f" where {lo} <= {r.show(e)} < {hi}" for e, lo, hi in conds)


def show_value(k: Kernel, u: UOp, index: Index, depth: int = 6) -> str:
    """A value as an expression; deep ones end in dots."""
    if u in k.loads:
        return f"b{k.loads[u]}[{', '.join(map(k.ranges.show, index))}]"
    if u.op is Op.CONST:
        return str(const_value(u))
    if depth == 0:
        return ".."
    if u.op is Op.REDUCE:
        return f"{u.arg[0].name.lower()}()"
    if u.op in VIEWS:
        return f"{u.op.name.lower()}({show_value(k, u.src[0], index, depth - 1) if u.src else ''})"
    inner = ", ".join(show_value(k, s, index, depth - 1) for s in u.src)
    return f"{u.op.name.lower()}({inner})"
