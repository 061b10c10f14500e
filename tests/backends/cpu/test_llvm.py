"""Compiling: errors with their line, what would end the process, threads, forks, the fallback."""

import threading

import llvmlite.binding as binding
import pytest

from fgrad.backends.cpu import llvm
from fgrad.backends.cpu.llvm import Host, assembly, compile_ir, host
from fgrad.errors import CompileError

NOTHING = "define void @e() nounwind { ret void }"


@pytest.mark.parametrize(
    "text, words",
    [
        ("define void @e() {\n  %x = add i32 1, foo\n  ret void\n}", r"line 2, column 19.*\n.*foo"),
        ("define i32 @e() {\nret i64 0 }", r"line 2, column 5: value doesn't match"),
        ("define void @e() {\nret void", "line 2"),
        ("define void @e() {\n%x = add i32 %y, 1\n%y = add i32 1, 1\nret void }", "dominate"),
    ],
)  # fmt: skip
def test_refused_text_is_a_compile_error_with_its_place(text, words):
    with pytest.raises(CompileError, match=words):
        compile_ir(text, 0)


@pytest.mark.parametrize(
    "text",
    [
        'define void @e() {\n  call void asm sideeffect "nop", ""()\n  ret void }',
        "define void @e(<vscale x 4 x i32> %x) {\n  ret void }",
        'module asm "nop"\ndefine void @e() { ret void }',
    ],
)
def test_what_would_abort_the_process_is_refused_before(text):
    with pytest.raises(CompileError, match=r"line [12]: inline assembly and scalable vectors"):
        compile_ir(text)


def test_assembly_is_text_for_people():
    text = assembly("define i64 @entry(i64 %x) nounwind { ret i64 %x }")
    assert "entry:" in text and "ret" in text
    fallback = llvm._LlvmliteService(binding, host())
    assert fallback.compile(NOTHING, 2, as_object=False).decode() == assembly(NOTHING)


def test_feature_names_are_those_the_machine_has():
    machine = Host("t", "c", "+sse2,-avx512f,+64bit", "22")
    assert machine.feature_names == ("sse2", "64bit")
    assert set(host().feature_names) <= set(host().features.replace("+", "").split(","))


def test_only_known_levels_are_accepted():
    with pytest.raises(ValueError, match="level must be one of"):
        compile_ir(NOTHING, 3)


def test_the_library_is_called_directly():
    host()
    assert isinstance(llvm._service, llvm._RawService)


def test_llvmlites_own_interface_gives_the_same_bytes(random_program):
    fallback = llvm._LlvmliteService(binding, host())
    for seed in range(4):
        text = random_program(seed)[0]
        for level in (0, 2):
            assert fallback.compile(text, level) == compile_ir(text, level)
    with pytest.raises(CompileError, match="line 2"):
        fallback.compile("define void @e() {\n  %x = add i32 1, foo\n  ret void\n}", 0)


def test_a_library_with_other_functions_is_left_to_llvmlite(monkeypatch):
    assert llvm._bind(binding) is not None
    monkeypatch.setitem(llvm._FUNCTIONS, "LLVMPY_NotThere", "void(*)(void)")
    assert llvm._bind(binding) is None
    monkeypatch.delitem(llvm._FUNCTIONS, "LLVMPY_NotThere")
    monkeypatch.setitem(llvm._FUNCTIONS, "LLVMPY_DisposeModule", "void(*)(void*, int)")
    assert llvm._bind(binding) is None


def test_threads_compile_the_same_bytes_as_one(random_program):
    texts = [random_program(seed)[0] for seed in range(12)]
    alone = [compile_ir(text, 2) for text in texts]
    results = {}

    def work(first):
        for i in range(first, len(texts), 2):
            results[i] = compile_ir(texts[i], 2)

    threads = [threading.Thread(target=work, args=(first % 2,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[i] for i in range(len(texts))] == alone


def test_a_child_forked_during_a_compilation_can_compile(in_child, random_program):
    big = "\n".join(
        random_program(seed)[0]
        .replace("@entry", f"@entry{seed}")
        .replace("@leaf", f"@leaf{seed}")
        .replace("@table", f"@table{seed}")
        for seed in range(60)
    )
    done = in_child(
        f"""
        import os, signal, threading, time
        from fgrad.backends.cpu.llvm import compile_ir
        compile_ir("define void @f() {{ ret void }}", 0)
        thread = threading.Thread(target=compile_ir, args=({big!r},))
        thread.start()
        for i in range(3):
            time.sleep(0.01)
            pid = os.fork()
            if not pid:
                signal.alarm(8)
                compile_ir("define void @f() {{ ret void }}", 2)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        thread.join()
        """
    )
    assert done.returncode == 0, done.stderr
