"""Objects into images: values compared with a model, refusals by name, AArch64 by decoding."""

import random
import struct

import llvmlite.binding as llvm
import pytest

from fgrad.backends.cpu.codemem import Arena
from fgrad.backends.cpu.elf import Image, link
from fgrad.backends.cpu.llvm import compile_ir, host
from fgrad.errors import CompileError, LinkError
from fgrad.hw.libc import as_function


def emit(text, triple=None, cpu="", features="", reloc="pic", codemodel="small"):
    """Compile with settings that the product never uses."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    host()  # the same global options
    module = llvm.parse_assembly(text, llvm.create_context())
    target = llvm.Target.from_triple(triple or llvm.get_process_triple())
    machine = target.create_target_machine(
        cpu=cpu, features=features, opt=2, reloc=reloc, codemodel=codemodel
    )
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    return machine.emit_object(module)


def test_random_programs_compute_what_their_model_says_while_others_come_and_go(random_program):
    arena, r, live = Arena(4 << 20), random.Random(0), []
    for seed in range(120):
        text, model = random_program(seed)
        image = link(compile_ir(text, r.choice((0, 2))))
        assert image.fixups == (), "position-independent code holds no addresses"
        at = arena.load(image)
        live.append((at, as_function(at + image.symbols["entry"], "uint64_t(*)(uint64_t)"), model))
        for _, function, expected in r.sample(live, min(3, len(live))):
            x = r.getrandbits(64)
            assert function(x) == expected(x), text
        while len(live) > 30 or (live and r.random() < 0.3):
            arena.free(live.pop(r.randrange(len(live)))[0])


def test_tables_of_pointers_get_the_address_of_the_blob():
    text = """
    @a = internal constant i64 5
    @b = internal constant i64 7
    @table = internal constant [2 x ptr] [ptr @a, ptr @b]
    define i64 @entry(i64 %i) nounwind {
      %p = getelementptr [2 x ptr], ptr @table, i64 0, i64 %i
      %q = load ptr, ptr %p
      %v = load i64, ptr %q
      ret i64 %v
    }"""
    image = link(compile_ir(text, 0))
    assert len(image.fixups) == 2
    arena = Arena(1 << 20)
    for _ in range(3):
        function = as_function(arena.load(image) + image.symbols["entry"], "int64_t(*)(int64_t)")
        assert (function(0), function(1)) == (5, 7)


@pytest.mark.parametrize(
    "text, words",
    [
        ("declare float @f(float)\ndefine float @e(float %x) { %y = call float @f(float %x)"
         " ret float %y }", "undefined symbol 'f'"),
        ("define float @e(float %x) { %y = frem float %x, 3.0 ret float %y }", "'fmodf'"),
        ("@g = global i64 0\ndefine i64 @e() { %x = load i64, ptr @g ret i64 %x }",
         "mutable global data 'g' in section"),
        ("@g = external global i64\ndefine i64 @e() { %x = load i64, ptr @g ret i64 %x }",
         "undefined symbol 'g'"),
        ("@g = thread_local global i64 0\ndefine i64 @e() { %x = load i64, ptr @g ret i64 %x }",
         "thread-local section"),
        ("declare i1 @llvm.nonsense(i64)\ndefine i1 @e() { %x = call i1 @llvm.nonsense(i64 1)"
         " ret i1 %x }", "undefined symbol 'llvm.nonsense'"),
    ],
)  # fmt: skip
def test_what_an_image_cannot_hold_is_refused_by_name(text, words):
    with pytest.raises(LinkError, match=words):
        link(compile_ir(text, 2))


def test_absolute_code_is_refused():
    text = """
    @table = internal constant [4 x i64] [i64 1, i64 2, i64 3, i64 4]
    define i64 @e(i64 %i) nounwind {
      %p = getelementptr [4 x i64], ptr @table, i64 0, i64 %i
      %v = load i64, ptr %p
      ret i64 %v
    }"""
    with pytest.raises(LinkError, match="x86-64 relocation 11 .*position-independent"):
        link(emit(text, "x86_64-unknown-linux-gnu", reloc="static"))


def test_other_files_are_refused():
    good = compile_ir("define void @e() nounwind { ret void }", 0)
    for data, words in (
        (b"", "not a 64-bit little-endian ELF"),
        (b"MZ" + good[2:], "not a 64-bit little-endian ELF"),
        (good[:16] + b"\x02" + good[17:], "not a relocatable object"),
        (good[:18] + struct.pack("<H", 243) + good[20:], "machine 243"),
        (good[:200], "damaged"),
    ):
        with pytest.raises(LinkError, match=words):
            link(data)
    assert issubclass(LinkError, CompileError)


@pytest.mark.parametrize(
    "triple, cpu, features",
    [
        ("x86_64-pc-windows-msvc-elf", "haswell", ""),
        ("x86_64-apple-macosx13-elf", "haswell", ""),
        ("arm64-apple-macosx13-elf", "apple-m1", "+reserve-x18"),
        ("aarch64-pc-windows-msvc-elf", "generic", "+reserve-x18"),
    ],
)
def test_objects_of_other_systems_are_elf_and_can_be_linked(random_program, triple, cpu, features):
    for seed in range(4):
        assert "entry" in link(emit(random_program(seed)[0], triple, cpu, features)).symbols


# ---- AArch64: this machine cannot run it, so the relocated instructions are decoded


def _signed(value, bits):
    return value - (1 << bits) if value >> (bits - 1) else value


def _aarch64_targets(image: Image):
    """Offsets that ADRP + ADD/LDR pairs and branches with link reach, by decoding the blob."""
    data, branches, pages = set(), set(), {}
    for at in range(0, len(image.blob) - 3, 4):
        (word,) = struct.unpack_from("<I", image.blob, at)
        if word & 0x9F000000 == 0x90000000:  # ADRP
            distance = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
            pages[word & 31] = (at >> 12) + distance << 12
        elif word & 0xFFC00000 == 0x91000000 and word >> 5 & 31 in pages:  # ADD immediate
            data.add(pages[word >> 5 & 31] + (word >> 10 & 0xFFF))
        elif word & 0x3B000000 == 0x39000000 and word >> 5 & 31 in pages:  # load, scaled offset
            is_vector16 = word & 0xFFC00000 == 0x3DC00000
            scale = 4 if is_vector16 else word >> 30
            data.add(pages[word >> 5 & 31] + ((word >> 10 & 0xFFF) << scale))
        elif word & 0xFC000000 == 0x94000000:  # BL
            branches.add(at + (_signed(word & 0x3FFFFFF, 26) << 2))
    return data, branches


def test_aarch64_code_reaches_its_constants_and_functions():
    filler = ", ".join(f"i64 {i}" for i in range(1200))  # more than a page away
    text = f"""
    @far = internal constant [1200 x i64] [{filler}]
    @magic = internal constant [3 x i64] [i64 1311768467463790320, i64 2, i64 3]
    define i64 @leaf(i64 %x) noinline nounwind {{
      %p = getelementptr [1200 x i64], ptr @far, i64 0, i64 %x
      %v = load i64, ptr %p
      ret i64 %v
    }}
    define i64 @entry(i64 %x) nounwind {{
      %y = call i64 @leaf(i64 %x)
      %p = getelementptr [3 x i64], ptr @magic, i64 0, i64 %y
      %v = load i64, ptr %p
      %z = add i64 %v, %y
      ret i64 %z
    }}
    define <4 x float> @pool(<4 x float> %x) nounwind {{
      %y = fadd <4 x float> %x, <float 1.0, float 2.0, float 3.0, float 4.0>
      ret <4 x float> %y
    }}"""
    image = link(emit(text, "aarch64-unknown-linux-gnu", "cortex-a76"))
    data, branches = _aarch64_targets(image)
    assert image.blob.find(struct.pack("<Q", 1311768467463790320)) in data
    assert image.blob.find(struct.pack("<3Q", 0, 1, 2)) in data
    assert image.blob.find(struct.pack("<4f", 1, 2, 3, 4)) in data
    assert image.symbols["leaf"] in branches


def test_aarch64_random_programs_link(random_program):
    for seed in range(20):
        image = link(emit(random_program(seed)[0], "aarch64-unknown-linux-gnu", "cortex-a76"))
        assert image.fixups == ()
