"""Code memory: W^X, reuse, stale calls, systems that refuse to change protections, forks."""

import signal

import pytest

from fgrad.backends.cpu import codemem
from fgrad.backends.cpu.codemem import Arena
from fgrad.backends.cpu.elf import Image, link
from fgrad.backends.cpu.llvm import compile_ir
from fgrad.hw.libc import EXECUTE, PAGE, WRITE, as_function, mprotect


def image_of(value: int) -> Image:
    return link(compile_ir(f"define i64 @e() nounwind {{ ret i64 {value} }}", 0))


def call(at: int, image: Image) -> int:
    return as_function(at + image.symbols["e"], "int64_t(*)()")()


def test_freed_pages_are_coalesced_and_used_again():
    arena, one = Arena(1 << 20), image_of(1)
    addresses = [arena.load(one) for _ in range(100)]
    assert arena.live_count() == 100
    for at in addresses[::2] + addresses[1::2]:
        arena.free(at)
    assert arena.live_count() == 0
    assert arena.load(one) == addresses[0]
    assert len(arena._free_runs) == 1


def test_an_image_larger_than_a_reservation_is_loaded():
    arena = Arena(2 * PAGE)
    small = image_of(3)
    large = Image(small.blob + bytes(5 * PAGE), small.symbols)
    assert call(arena.load(large), large) == 3
    assert call(arena.load(small), small) == 3


def test_freeing_twice_or_something_else_is_an_error():
    arena, one = Arena(1 << 20), image_of(1)
    at = arena.load(one)
    arena.free(at)
    arena.load(one)
    with pytest.raises(KeyError, match="no code is loaded"):
        arena.free(at + PAGE)


def test_no_page_is_writable_and_executable():
    arena = Arena(1 << 20)
    at = arena.load(image_of(1))
    with open("/proc/self/maps") as file:
        for line in file:
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            if start <= at < end:
                assert line.split()[1] == "r-xp"
                break
        else:
            pytest.fail("the code is not mapped")


def test_a_call_of_freed_code_faults(in_child):
    done = in_child("""
        from fgrad.backends.cpu.codemem import Arena
        from fgrad.backends.cpu.elf import link
        from fgrad.hw.libc import as_function
        from fgrad.backends.cpu.llvm import compile_ir
        arena = Arena()
        image = link(compile_ir("define i64 @e() nounwind { ret i64 1 }"))
        first, second = arena.load(image), arena.load(image)
        arena.free(first)
        arena.free(second)
        assert arena.load(image) == first
        as_function(second, "int64_t(*)()")()
        """)
    assert done.returncode in (-signal.SIGSEGV, -signal.SIGBUS)


@pytest.fixture
def refusing(monkeypatch):
    """A system on which pages that were writable cannot become executable."""
    monkeypatch.setattr(
        codemem, "mprotect", lambda at, n, p: -1 if p & EXECUTE else mprotect(at, n, p)
    )


def test_where_protections_cannot_change_memory_is_mapped_twice(refusing):
    arena, one, two = Arena(1 << 20), image_of(1), image_of(2)
    at = arena.load(one)
    assert call(at, one) == 1
    other = arena.load(two)
    assert (call(at, one), call(other, two)) == (1, 2)
    arena.free(at)
    assert arena.load(two) == at
    arena._forked(is_child=False)
    arena.free(at)
    arena.free(other)
    later = [arena.load(one) for _ in range(3)]
    assert at not in later and other not in later, "a fork shares these pages"
    assert call(later[0], one) == 1


def test_a_system_without_any_executable_memory_names_the_way_out(refusing, monkeypatch):
    monkeypatch.delattr("os.memfd_create")
    with pytest.raises(PermissionError, match="FGRAD_DEVICE=PYTHON"):
        Arena(1 << 20).load(image_of(1))


def test_a_forked_child_keeps_its_code_when_the_parent_reuses_the_pages(in_child):
    done = in_child("""
        import os
        from fgrad.backends.cpu.codemem import Arena
        from fgrad.backends.cpu.elf import link
        from fgrad.hw.libc import as_function
        from fgrad.backends.cpu.llvm import compile_ir
        one, two = (link(compile_ir(f"define i64 @e() nounwind {{ ret i64 {v} }}")) for v in (1, 2))
        arena = Arena()
        at = arena.load(one)
        r, w = os.pipe()
        pid = os.fork()
        if not pid:
            os.read(r, 1)
            os._exit(as_function(at + one.symbols["e"], "int64_t(*)()")())
        arena.free(at)
        assert arena.load(two) == at
        os.write(w, b"x")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
        """)
    assert done.returncode == 0, done.stderr


def test_protections_are_the_numbers_of_this_system():
    import mmap

    assert (WRITE, EXECUTE) == (mmap.PROT_WRITE, mmap.PROT_EXEC)
