"""What tests of the native layer share: random programs with a model, loaded code, child runs."""

import random
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fgrad.backends.cpu.code import Code, load_code
from fgrad.backends.cpu.native import Native, load_native
from fgrad.backends.cpu.workers import WorkerPool
from fgrad.hw.libc import as_function, raw_block, words

ROOT = Path(__file__).parents[3]
M = (1 << 64) - 1
Model = Callable[[int], int]
Step = tuple[list[str], Callable[[int], int]]


class _Random:
    """Builds ``i64 entry(i64)`` out of straight code, jump tables, constants, vectors and calls."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.table = [self.r.getrandbits(64) for _ in range(self.r.choice((4, 7, 33)))]
        self.lanes = [self.r.uniform(-4, 4) for _ in range(8)]

    def arithmetic(self, v: str, a: str) -> Step:
        op, c = self.r.choice(("add", "mul", "xor", "sub")), self.r.getrandbits(40) | 1
        model = {
            "add": lambda x: x + c & M,
            "mul": lambda x: x * c & M,
            "xor": lambda x: x ^ c,
            "sub": lambda x: x - c & M,
        }[op]
        return [f"{v} = {op} i64 {a}, {c}"], model

    def lookup(self, v: str, a: str) -> Step:
        n = len(self.table)
        lines = [
            f"{v}i = urem i64 {a}, {n}",
            f"{v}p = getelementptr [{n} x i64], ptr @table, i64 0, i64 {v}i",
            f"{v} = load i64, ptr {v}p",
        ]
        return lines, lambda x: self.table[x % n]

    def switch(self, v: str, a: str) -> Step:
        m, name = self.r.choice((5, 9, 17)), v[1:]
        values = [self.r.getrandbits(50) for _ in range(m)]
        cases = " ".join(f"i64 {q}, label %{name}.{q}" for q in range(1, m))
        lines = [f"{v}s = urem i64 {a}, {m}", f"switch i64 {v}s, label %{name}.0 [{cases}]"]
        for q in range(m):
            lines += [f"{name}.{q}:", f"store volatile i64 {q}, ptr %slot", f"br label %{name}.end"]
        joined = ", ".join(f"[{value}, %{name}.{q}]" for q, value in enumerate(values))
        return [*lines, f"{name}.end:", f"{v} = phi i64 {joined}"], lambda x: values[x % m]

    def vector(self, v: str, a: str) -> Step:
        lane = self.r.randrange(8)
        factors = ", ".join(f"double {np.float64(x).view('u8'):#018x}" for x in self.lanes)
        lines = [
            f"{v}w = and i64 {a}, 1023",
            f"{v}d = uitofp i64 {v}w to double",
            f"{v}e = insertelement <8 x double> poison, double {v}d, i64 0",
            f"{v}s = shufflevector <8 x double> {v}e, <8 x double> poison, "
            "<8 x i32> zeroinitializer",
            f"{v}m = fmul <8 x double> {v}s, <{factors}>",
            f"{v}a = fadd <8 x double> {v}m, splat (double 3.5)",
            f"{v}b = bitcast <8 x double> {v}a to <8 x i64>",
            f"{v} = extractelement <8 x i64> {v}b, i64 {lane}",
        ]
        factor = np.float64(self.lanes[lane])
        return lines, lambda x: int(np.float64(np.float64(x & 1023) * factor + 3.5).view("u8"))

    def call(self, v: str, a: str) -> Step:
        return [f"{v} = call i64 @leaf(i64 {a})"], lambda x: x * 7 + 11 & M

    def build(self) -> tuple[str, Model]:
        kinds = (self.arithmetic, self.lookup, self.switch, self.vector, self.call)
        names, models, lines = ["%x"], [lambda x: x], ["%slot = alloca i64"]
        for j in range(self.r.randrange(3, 25)):
            source = self.r.randrange(len(names))
            code, step = self.r.choice(kinds)(f"%v{j}", names[source])
            lines += code
            names.append(f"%v{j}")
            models.append(lambda x, f=step, g=models[source]: f(g(x)))
        words_text = ", ".join(f"i64 {word}" for word in self.table)
        text = "\n".join(
            [
                f"@table = internal constant [{len(self.table)} x i64] [{words_text}]",
                "define internal i64 @leaf(i64 %x) noinline nounwind {",
                "%a = mul i64 %x, 7\n%b = add i64 %a, 11\nret i64 %b }",
                "define i64 @entry(i64 %x) nounwind {",
                *lines,
                f"ret i64 {names[-1]} }}\n",
            ]
        )
        return text, models[-1]


@pytest.fixture
def random_program() -> Callable[[int], tuple[str, Model]]:
    """Return a function: seed -> (IR of ``i64 entry(i64)``, what it computes)."""
    return lambda seed: _Random(seed).build()


@pytest.fixture
def in_child(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs Python source in a process of its own."""

    def run(source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "child.py"
        path.write_text("import sys\nsys.path.insert(0, sys.argv[1])\n" + textwrap.dedent(source))
        command = [sys.executable, str(path), str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    return run


TASKS = """
define void @count(ptr %t, i64 %i, i64 %w) nounwind {
  %p = getelementptr i64, ptr %t, i64 %i
  %old = atomicrmw add ptr %p, i64 1 monotonic
  ret void
}
define void @nothing(ptr %t, i64 %i, i64 %w) nounwind { ret void }
; table: pfor, runtime, inner function, inner table
define void @nested(ptr %t, i64 %i, i64 %w) nounwind {
  %pfor = load ptr, ptr %t
  %p1 = getelementptr ptr, ptr %t, i64 1
  %rt = load ptr, ptr %p1
  %p2 = getelementptr ptr, ptr %t, i64 2
  %fn = load ptr, ptr %p2
  %p3 = getelementptr ptr, ptr %t, i64 3
  %inner = load ptr, ptr %p3
  call void %pfor(ptr %rt, ptr %fn, ptr %inner, i64 5)
  ret void
}
; note the worker of each task, after some work
define void @who(ptr %t, i64 %i, i64 %w) nounwind {
  br label %l
l:
  %k = phi i64 [0, %0], [%k1, %l]
  %p = getelementptr i64, ptr %t, i64 %i
  store volatile i64 %w, ptr %p
  %k1 = add i64 %k, 1
  %c = icmp ult i64 %k1, 20000
  br i1 %c, label %l, label %e
e:
  ret void
}
define void @many(ptr %pfor, ptr %rt, ptr %f, ptr %t, i64 %n, i64 %times) nounwind {
  br label %l
l:
  %i = phi i64 [0, %0], [%j, %l]
  call void %pfor(ptr %rt, ptr %f, ptr %t, i64 %n)
  %j = add i64 %i, 1
  %c = icmp ult i64 %j, %times
  br i1 %c, label %l, label %e
e:
  ret void
}
; entries; words of the table from 4 on: address to add to, address of a log
define void @add_one(ptr %t) nounwind {
  %p4 = getelementptr ptr, ptr %t, i64 4
  %cell = load ptr, ptr %p4
  %old = atomicrmw add ptr %cell, i64 1 monotonic
  ret void
}
; append the word 5 of the table to a log: word 4 points to [count, entries..]
define void @log(ptr %t) nounwind {
  %p4 = getelementptr ptr, ptr %t, i64 4
  %log = load ptr, ptr %p4
  %p5 = getelementptr i64, ptr %t, i64 5
  %v = load i64, ptr %p5
  %n = load i64, ptr %log
  %n1 = add i64 %n, 1
  store i64 %n1, ptr %log
  %e = getelementptr i64, ptr %log, i64 %n1
  store i64 %v, ptr %e
  ret void
}
; run until cancelled, with progress
define void @forever(ptr %t) nounwind {
  %ctl = load ptr, ptr %t
  %pp = getelementptr i8, ptr %ctl, i64 16
  br label %l
l:
  %k = phi i64 [0, %0], [%k1, %l]
  %k1 = add i64 %k, 1
  store volatile i64 %k1, ptr %pp
  %c = load volatile i32, ptr %ctl
  %z = icmp eq i32 %c, 0
  br i1 %z, label %l, label %e
e:
  ret void
}
; run for ever and look at nothing
define void @deaf(ptr %t) nounwind {
  %ctl = load ptr, ptr %t
  %pp = getelementptr i8, ptr %ctl, i64 16
  br label %l
l:
  store volatile i64 1, ptr %pp
  br label %l
}
define void @fail(ptr %t) nounwind {
  %ctl = load ptr, ptr %t
  %pe = getelementptr i8, ptr %ctl, i64 4
  %pw = getelementptr i8, ptr %ctl, i64 8
  %p4 = getelementptr i64, ptr %t, i64 4
  %v = load i64, ptr %p4
  store i32 17, ptr %pe
  store i64 %v, ptr %pw
  ret void
}
; call the function in word 4
define void @call_back(ptr %t) nounwind {
  %p4 = getelementptr ptr, ptr %t, i64 4
  %f = load ptr, ptr %p4
  call void %f(ptr %t)
  ret void
}
"""


@pytest.fixture(scope="session")
def tasks() -> Code:
    """Loaded task functions and entries."""
    return load_code(TASKS, level=2)


@pytest.fixture(scope="session")
def tasks_text() -> str:
    return TASKS


@pytest.fixture(params=["system", "polling"])
def runtime(request: Any) -> Native:
    """A runtime with a table of its own, sleeping as the system does it best, or by polling."""
    return load_native() if request.param == "system" else load_native(has_futex=False)


@pytest.fixture
def pool(runtime: Native) -> Iterator[WorkerPool]:
    """Two workers on `runtime`."""
    pool = WorkerPool(runtime, 2)
    yield pool
    assert pool.stop()


@pytest.fixture
def make_table() -> Callable[..., Any]:
    """Return a function: (runtime, words from 4 on) -> (address, words) of an entry's table."""

    def make(runtime: Native, *arguments: int) -> tuple[int, Any]:
        address = raw_block(4096)
        table = words(address)
        table[0], table[1] = address + 2048, runtime.table
        for i, word in enumerate(arguments):
            table[4 + i] = word
        return address, table

    return make


@pytest.fixture
def call_many(tasks: Code) -> Callable[..., None]:
    """``many(pfor, runtime, function, table, n, times)``: parallel loops without Python between."""
    signature = "void(*)(intptr_t, intptr_t, intptr_t, intptr_t, int64_t, int64_t)"
    many: Callable[..., None] = as_function(tasks.addresses["many"], signature)
    return many
