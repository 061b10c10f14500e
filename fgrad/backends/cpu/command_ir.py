"""IR of the commands that are no programs, as entries of the queue, and of submitting many at once.

Each takes a table like any program: control block, runtime, and from `Slot.ARGUMENTS` on its
operands. Those that may take long poll the control block's cancel word.
"""

from fgrad.backends.cpu.abi import Runtime, Slot
from fgrad.backends.cpu.irtext import METADATA, field, primitives, word

RECORD_WORDS = 3  # of submit_all: queue, entry, table
_SLICE_NS = 10_000_000  # how soon a sleeping wait sees that it is cancelled
_POLL_NS = 50_000


def command_ir(has_futex: bool) -> str:
    """Return the IR of copy, wait, timestamp, write32, write64, poll and submit_all."""
    parts = [primitives(has_futex), _COPY, _WAIT, _TIMESTAMP, _WRITE, _POLL, _SUBMIT_ALL, METADATA]
    return "\n".join(parts)


def _head(*operands: str) -> str:
    """Load runtime, control block and operands of an entry's table."""
    lines = ["%ctl = load ptr, ptr %t", field("rt.at", "t", 8 * Slot.RUNTIME)]
    lines.append("%rt = load ptr, ptr %rt.at")
    for i, operand in enumerate(operands):
        kind, name = operand.split()
        lines.append(field(f"{name}.at", "t", 8 * (Slot.ARGUMENTS + i)))
        lines.append(f"%{name} = load {kind}, ptr %{name}.at")
    return "\n  ".join(lines)


_COPY = f"""
define void @copy_command(ptr %t) nounwind {{
  {_head("ptr target", "ptr source", "i64 bytes")}
  {word("copy", "rt", Runtime.COPY)}
  call void %copy(ptr %target, ptr %source, i64 %bytes)
  ret void
}}
"""

_WAIT = f"""
; until a queue has completed a ticket; `await` is the runtime's
define void @wait_command(ptr %t) nounwind {{
  {_head("ptr ring", "i64 ticket", "ptr await")}
  br label %look
look:
  %now = call i64 %await(ptr %rt, ptr %ring, i64 %ticket, i64 {_SLICE_NS})
  %reached = icmp sge i64 %now, %ticket
  br i1 %reached, label %out, label %cancelled
cancelled:
  %cancel = load atomic i32, ptr %ctl monotonic, align 4
  %go = icmp eq i32 %cancel, 0
  br i1 %go, label %look, label %out
out:
  ret void
}}
"""

_TIMESTAMP = f"""
define void @timestamp_command(ptr %t) nounwind {{
  {_head("ptr target")}
  {word("clock.of", "rt", Runtime.CLOCK)}
  %now = call i64 %clock.of(ptr %rt)
  store i64 %now, ptr %target, align 1
  ret void
}}
"""

_WRITE = f"""
define void @write64_command(ptr %t) nounwind {{
  {_head("ptr target", "i64 value")}
  store atomic i64 %value, ptr %target release, align 8
  call void @wake(ptr %rt, ptr %target, i64 2147483647)
  ret void
}}
define void @write32_command(ptr %t) nounwind {{
  {_head("ptr target", "i64 value")}
  %low = trunc i64 %value to i32
  store atomic i32 %low, ptr %target release, align 4
  call void @wake(ptr %rt, ptr %target, i64 2147483647)
  ret void
}}
"""

_POLL = f"""
; until the word under the mask is as expected; whoever writes it need not know of the sleeper
define void @poll_command(ptr %t) nounwind {{
  {_head("ptr source", "i64 expected", "i64 mask")}
  br label %look
look:
  %k = phi i64 [0, %0], [%k.next, %wait], [%k.next, %sleep]
  %k.next = add i64 %k, 1
  %value = load atomic i64, ptr %source acquire, align 8
  %masked = and i64 %value, %mask
  %met = icmp eq i64 %masked, %expected
  br i1 %met, label %out, label %cancelled
cancelled:
  %cancel = load atomic i32, ptr %ctl monotonic, align 4
  %go = icmp eq i32 %cancel, 0
  br i1 %go, label %idle, label %out
idle:
  %hot = icmp ult i64 %k, 64
  br i1 %hot, label %wait, label %sleep
wait:
  call void @spin(i64 16)
  br label %look
sleep:
  %seen = trunc i64 %value to i32
  call void @nap(ptr %rt, ptr %source, i32 %seen, i64 {_POLL_NS})
  br label %look
out:
  ret void
}}
"""

_SUBMIT_ALL = f"""
; i64 submit_all(rt, submit, records, n): submit n records (queue, entry, table) in order; returns
; how many were submitted, fewer than n if a queue was full
define i64 @submit_all(ptr %rt, ptr %submit, ptr %records, i64 %n) nounwind {{
  br label %look
look:
  %i = phi i64 [0, %0], [%i.next, %one]
  %done = icmp sge i64 %i, %n
  br i1 %done, label %out, label %one
one:
  %offset = mul i64 %i, {8 * RECORD_WORDS}
  {field("record", "records", "%offset")}
  {field("fn.at", "record", 8)}
  {field("table.at", "record", 16)}
  %ring = load ptr, ptr %record
  %fn = load ptr, ptr %fn.at
  %table = load ptr, ptr %table.at
  %ticket = call i64 %submit(ptr %rt, ptr %ring, ptr %fn, ptr %table)
  %taken = icmp sge i64 %ticket, 0
  %i.next = add i64 %i, 1
  br i1 %taken, label %look, label %out
out:
  ret i64 %i
}}
"""
