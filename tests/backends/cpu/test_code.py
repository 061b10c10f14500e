"""load_code and upgrade: one copy per text, the disk, level 2 behind, ends of life."""

import gc
import threading
import time

import pytest

from fgrad.backends.cpu import code as code_module
from fgrad.backends.cpu import llvm
from fgrad.backends.cpu.code import Code, arena, load_code, upgrade, upgrades_pending
from fgrad.config import config
from fgrad.errors import CompileError, LinkError
from fgrad.hw.libc import as_function


def text_of(value: int) -> str:
    return f"define i64 @entry() nounwind {{ ret i64 {value} }}"


def call(addresses: dict[str, int]) -> int:
    return as_function(addresses["entry"], "int64_t(*)()")()


@pytest.fixture
def folder(tmp_path):
    """A cache folder of this test's own."""
    with config.override(cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"


@pytest.fixture
def no_compiler(monkeypatch):
    def refuse(text, level):
        raise AssertionError("compiled although it was at hand")

    return lambda: monkeypatch.setattr(code_module, "compile_ir", refuse)


def wait_for_upgrades():
    until = time.monotonic() + 10
    while upgrades_pending():
        assert time.monotonic() < until
        time.sleep(0.002)


def test_equal_text_is_loaded_once(folder):
    a, b = load_code(text_of(100), ["entry"]), load_code(text_of(100), ["entry"])
    assert a is b
    assert call(a.addresses) == 100
    assert load_code(text_of(101)) is not a


def test_code_goes_with_its_last_reference(folder):
    gc.collect()
    before = arena.live_count()
    a = load_code(text_of(110))
    assert arena.live_count() == before + 1
    del a
    assert arena.live_count() == before


def test_level_2_comes_back_from_disk_without_the_compiler(folder, no_compiler):
    assert call(load_code(text_of(120), level=2).addresses) == 120
    no_compiler()
    for level in (0, 2):
        code = load_code(text_of(120), ["entry"], level)
        assert code.level == 2
        assert call(code.addresses) == 120
        del code
    with pytest.raises(AssertionError, match="at hand"):
        load_code(text_of(121))


def test_a_second_process_needs_no_llvm(in_child, tmp_path):
    """It finds its code, and even the description of the machine, on disk."""
    source = f"""
        import os
        os.environ["FGRAD_CACHE_DIR"] = {str(tmp_path / "own")!r}
        from fgrad.backends.cpu.code import host_machine, load_code
        from fgrad.backends.cpu import workers
        workers.start()
        load_code("define void @e() nounwind {{ ret void }}", ["e"], level=2)
        print(host_machine().cpu, "llvmlite" in sys.modules)
        """
    first, second = in_child(source), in_child(source)
    assert first.stderr == second.stderr == ""
    assert first.stdout.split()[1] == "True" and second.stdout.split()[1] == "False"
    assert first.stdout.split()[0] == second.stdout.split()[0]


def test_the_machine_is_described_as_llvm_does(folder, monkeypatch):
    monkeypatch.setattr(code_module, "_host", None)
    assert code_module.host_machine() == llvm.host()
    monkeypatch.setattr(code_module, "_host", None)
    monkeypatch.setattr(code_module, "host", lambda: pytest.fail("asked again"))
    assert code_module.host_machine() == llvm.host()


def test_level_0_is_not_kept_on_disk_while_level_2_may_come(folder):
    load_code(text_of(130), level=0)
    assert not [path for path in folder.rglob("*") if path.is_file()]


CHILD = """
import os, shutil
os.environ["FGRAD_CACHE_DIR"] = {folder!r}
from fgrad.backends.cpu.code import load_code
load_code({text!r}, ["entry"], level=0)
if {removes}:
    shutil.rmtree({folder!r})
"""


@pytest.mark.parametrize("removes", [False, True])
def test_level_0_is_kept_by_a_process_that_ends_before_level_2(in_child, tmp_path, removes):
    """But not in a folder that was removed."""
    folder = tmp_path / "own"
    done = in_child(CHILD.format(folder=str(folder), text=text_of(133), removes=removes))
    assert (done.returncode, done.stderr) == (0, "")
    kept = [path.name for path in folder.rglob("*-0")]
    assert len(kept) == (0 if removes else 1) and folder.exists() is not removes


def test_level_2_takes_the_place_of_level_0_on_disk(in_child, tmp_path):
    folder = tmp_path / "own"
    assert in_child(CHILD.format(folder=str(folder), text=text_of(134), removes=False)).returncode == 0
    with config.override(cache_dir=str(folder)):
        code, got = load_code(text_of(134), level=0), []
        assert code.level == 0 and call(code.addresses) == 134
        assert upgrade(code, got.append)
        wait_for_upgrades()
    assert call(got[0]) == 134 and not list(folder.rglob("*-0"))


def test_an_empty_folder_name_switches_the_disk_off(no_compiler):
    with config.override(cache_dir=""):
        assert call(load_code(text_of(140), level=2).addresses) == 140
        no_compiler()
        with pytest.raises(AssertionError, match="at hand"):
            load_code(text_of(140), level=2)


def test_a_folder_others_may_write_is_not_used_and_said_once(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    with config.override(cache_dir=str(shared)):
        with pytest.warns(RuntimeWarning, match="not private"):
            assert call(load_code(text_of(150), level=2).addresses) == 150
        assert call(load_code(text_of(151), level=2).addresses) == 151
    assert list(shared.iterdir()) == []


def test_a_missing_entry_is_named(folder):
    with pytest.raises(LinkError, match="does not define the function 'other'"):
        load_code(text_of(160), ["entry", "other"])


def test_upgrade_hands_over_new_addresses_and_leaves_the_old_ones_valid(folder):
    code, got = load_code(text_of(170)), []
    assert upgrade(code, got.append)
    wait_for_upgrades()
    assert call(got[0]) == call(code.addresses) == 170
    assert got[0] != code.addresses
    assert code.upgraded is load_code(text_of(170)) and code.upgraded.level == 2
    assert not upgrade(code.upgraded, got.append), "there is no level above 2"


@pytest.mark.parametrize("present", [0, 15])
def test_a_process_of_low_priority_upgrades_as_well(folder, monkeypatch, present):
    """Its threads may not become more important than it is."""
    asked = []

    def refuse(which, who, niceness):
        asked.append(niceness)
        raise PermissionError("not allowed")

    monkeypatch.setattr(code_module.os, "getpriority", lambda which, who: present)
    monkeypatch.setattr(code_module.os, "setpriority", refuse)
    code, got = load_code(text_of(175 + present)), []
    assert upgrade(code, got.append)
    wait_for_upgrades()
    assert code.upgraded is not None and code.upgrade_error is None and len(got) == 1
    assert asked == ([10] if present == 0 else [])


def test_many_upgrades_are_all_served(folder):
    codes, got = [load_code(text_of(1000 + i)) for i in range(20)], {}
    for i, code in enumerate(codes):
        upgrade(code, lambda addresses, i=i: got.update({i: addresses}))
    wait_for_upgrades()
    assert [call(got[i]) for i in range(20)] == [1000 + i for i in range(20)]


def test_code_is_swapped_under_running_callers(folder):
    """The way a program uses it: one dictionary entry is replaced, callers read it at each call."""
    wrong, stop, ns = [], threading.Event(), {}

    def work():
        while not stop.is_set():
            if ns["call"]() != 7:
                wrong.append(1)

    kept = []
    ns["call"] = lambda: 7
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(10):
        code = load_code(f"; {i}\n" + text_of(7))
        kept.append(code)
        ns["call"] = as_function(code.addresses["entry"], "int64_t(*)()")
        upgrade(
            code, lambda a: ns.update(call=as_function(a["entry"], "int64_t(*)()"))
        )  # fmt: skip
    wait_for_upgrades()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_failing_upgrade_is_logged_and_leaves_the_program_running(folder, monkeypatch, caplog):
    code = load_code(text_of(180))

    def refuse(text, level):
        raise CompileError("out of order")

    monkeypatch.setattr(code_module, "compile_ir", refuse)
    upgrade(code, lambda addresses: pytest.fail("called in spite of the error"))
    wait_for_upgrades()
    assert isinstance(code.upgrade_error, CompileError)
    assert "goes on at level 0" in caplog.text and "out of order" in caplog.text
    assert call(code.addresses) == 180


def test_a_callback_that_raises_does_not_end_the_thread(folder, caplog):
    first, second, got = load_code(text_of(190)), load_code(text_of(191)), []

    def fail(addresses):
        raise ValueError("mine")

    upgrade(first, fail)
    upgrade(second, got.append)
    wait_for_upgrades()
    assert isinstance(first.upgrade_error, ValueError)
    assert call(got[0]) == 191


BIG = """
    import os, time
    from fgrad.backends.cpu.code import load_code, upgrade
    def big(seed):
        lines = [f"%x{i + 1} = xor i64 %x{i}, {i * 77 + seed}" for i in range(3000)]
        functions = [f"define i64 @f{k}(i64 %x0) nounwind {{ " + "\\n".join(lines)
                     + " ret i64 %x3000 }" for k in range(3)]
        return "\\n".join(functions)
"""


@pytest.mark.parametrize("delay_ms", [0, 30, 90])
def test_the_process_ends_cleanly_while_level_2_is_compiled(in_child, delay_ms):
    done = in_child(
        BIG
        + f"""
    codes = [load_code(big(seed)) for seed in range(4)]
    for code in codes:
        upgrade(code, lambda addresses: None)
    time.sleep({delay_ms / 1000})
    """,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_child_forked_during_an_upgrade_can_upgrade(in_child):
    done = in_child(
        BIG
        + """
    codes = [load_code(big(seed)) for seed in range(4)]
    for code in codes:
        upgrade(code, lambda addresses: None)
    time.sleep(0.03)
    pid = os.fork()
    got = []
    mine = load_code("define i64 @entry() nounwind { ret i64 5 }")
    upgrade(mine, got.append)
    while not got:
        time.sleep(0.001)
    if not pid:
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    """
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_loading_from_many_threads_gives_right_code(folder):
    wrong = []

    def work(first):
        for i in range(40):
            value = 2000 + (i * 7 + first) % 15
            code: Code = load_code(text_of(value), ["entry"], level=2 * (i % 2))
            if call(code.addresses) != value:
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
