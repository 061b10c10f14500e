"""IR of fill and copy as vector loops of our own: LLVM's are calls into the C library."""

_BODY = """
define void @{name}(ptr %target, {argument}, i64 %bytes) nounwind {{
  {prepare}
  %whole = and i64 %bytes, -64
  %any = icmp ne i64 %whole, 0
  br i1 %any, label %wide, label %rest
wide:
  %i = phi i64 [0, %0], [%i.next, %wide]
  %at = getelementptr i8, ptr %target, i64 %i
  {wide}
  store <8 x i64> %v, ptr %at, align 1
  %i.next = add i64 %i, 64
  %more = icmp ult i64 %i.next, %whole
  br i1 %more, label %wide, label %rest
rest:
  %left = icmp ult i64 %whole, %bytes
  br i1 %left, label %narrow, label %out
narrow:
  %j = phi i64 [%whole, %rest], [%j.next, %narrow]
  %at.byte = getelementptr i8, ptr %target, i64 %j
  {narrow}
  store i8 %b, ptr %at.byte
  %j.next = add i64 %j, 1
  %j.more = icmp ult i64 %j.next, %bytes
  br i1 %j.more, label %narrow, label %out
out:
  ret void
}}
"""


def memory_ir() -> str:
    """Return the IR of ``fill(target, pattern, bytes)`` and ``copy(target, source, bytes)``."""
    fill = _BODY.format(
        name="fill",
        argument="i64 %pattern",
        prepare="%one = insertelement <8 x i64> poison, i64 %pattern, i64 0\n"
        "  %v = shufflevector <8 x i64> %one, <8 x i64> poison, <8 x i32> zeroinitializer",
        wide="",
        narrow="%lane = and i64 %j, 7\n  %shift = shl i64 %lane, 3\n"
        "  %moved = lshr i64 %pattern, %shift\n  %b = trunc i64 %moved to i8",
    )
    copy = _BODY.format(
        name="copy",
        argument="ptr %source",
        prepare="",
        wide="%from = getelementptr i8, ptr %source, i64 %i\n"
        "  %v = load <8 x i64>, ptr %from, align 1",
        narrow="%from.byte = getelementptr i8, ptr %source, i64 %j\n  %b = load i8, ptr %from.byte",
    )
    return fill + copy
