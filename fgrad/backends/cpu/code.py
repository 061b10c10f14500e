"""Compiled code by its text: `load_code` finds it in memory or on disk, or compiles it.

`upgrade` compiles code that was loaded at level 0 again at level 2, behind the program's back, on a
thread of low priority. The thread is joined at exit after the module it is at, since a process that
ends while a thread is inside LLVM crashes; so modules should take no longer than about 0.1 s.
"""

import atexit
import contextlib
import importlib.util
import inspect
import json
import logging
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import asdict
from weakref import WeakMethod, WeakValueDictionary

from fgrad.backends.cpu.codemem import Arena
from fgrad.backends.cpu.diskcache import DiskCache, content_key
from fgrad.backends.cpu.elf import Image, link
from fgrad.backends.cpu.forks import after_fork, fork_safe_lock
from fgrad.backends.cpu.llvm import Host, compile_ir, host, room_for
from fgrad.config import config
from fgrad.errors import CompileError, LinkError, OutOfMemoryError
from fgrad.hw.libc import IS_LINUX
from fgrad.hw.pool import need_room

_FORMAT = 1  # grows when the meaning of an image changes
_SETTINGS = "pic small disable-lsr"
_NICENESS = 10  # 19 would get 1 % of a busy core: the end of a process, which waits, could take minutes

_log = logging.getLogger(__name__)
arena = Arena()


class Code:
    """Loaded code. Its pages go when the last reference goes: keep it until the last call returned.

    addresses      entry name -> address
    level          of code generation
    upgraded       the level-2 code that `upgrade` made of it; it lives as long as this one
    upgrade_error  why there is none, if compiling it failed
    """

    def __init__(self, image: Image, level: int, key: str, text: str) -> None:
        self._base = arena.load(image)
        self.addresses = {name: self._base + at for name, at in image.symbols.items()}
        self.level = level
        self.upgraded: Code | None = None
        self.upgrade_error: Exception | None = None
        self._key = key
        self._text = text if level == 0 else ""  # kept for the upgrade only

    def __del__(self, free: Callable[[int], None] = arena.free) -> None:
        # `arena` itself may be gone when the interpreter takes its modules apart
        base = getattr(self, "_base", None)
        if base is not None:
            free(base)


_loaded: WeakValueDictionary[tuple[str, int], Code] = WeakValueDictionary()


def load_code(ir_text: str, entry_names: Iterable[str] = (), level: int = 0) -> Code:
    """Return loaded code for a module of LLVM IR; equal text shares one copy.

    entry_names  functions the module must define; all its global functions are in `addresses`
    level        0 or 2; code of level 2 that is at hand already is taken for 0 as well

    Raises CompileError (with the line) or LinkError (with the symbol).
    """
    key = content_key(ir_text, _FORMAT, _SETTINGS, _machine_identity())
    code = _find(key, 2) or (_find(key, 0, ir_text) if level == 0 else None)
    if code is None:
        code = _publish(key, ir_text, link(compile_ir(ir_text, level)), level)
        _last_compilation[0] = time.monotonic()
    missing = [name for name in entry_names if name not in code.addresses]
    if missing:
        raise LinkError(f"the module does not define the function {missing[0]!r}")
    return code


def _find(key: str, level: int, text: str = "") -> Code | None:
    """Return code from memory or disk."""
    code = _loaded.get((key, level))
    disk = _disk()
    if code is None and disk is not None:
        image = disk.get(_name(key, level))
        if image is not None:
            _last_compilation[0] = time.monotonic()
            if level == 2:  # another process has kept it meanwhile
                _forget(disk, key)
            code = _loaded[key, level] = Code(image, level, key, text)
    return code


def _publish(key: str, text: str, image: Image, level: int) -> Code:
    """Load an image that was just linked, and make it known.

    Level 0 is kept on disk by a process that ends before it had level 2.
    """
    disk = _disk()
    if disk is not None:
        if level == 2:
            disk.put(key, image)
            if _forget(disk, key) is None:
                disk.remove(_name(key, 0))  # of an earlier process
        else:
            with _lock:
                _at_exit[disk, _name(key, 0)] = image
                while len(_at_exit) > _MOST_AT_EXIT:
                    _at_exit.pop(next(iter(_at_exit)))
    code = _loaded[key, level] = Code(image, level, key, text)
    return code


def _forget(disk: DiskCache, key: str) -> Image | None:
    """Do not keep code of level 0 at the end: there is better one."""
    with _lock:
        return _at_exit.pop((disk, _name(key, 0)), None)


def _name(key: str, level: int) -> str:
    """The name on disk."""
    return key if level == 2 else key + "-0"


# ---- the disk cache in force

_MOST_AT_EXIT, _MOST_SOON = 1000, 200
_at_exit: dict[tuple[DiskCache, str], Image] = {}  # code of level 0
_soon: dict[tuple[DiskCache, str], Image] = {}  # is written when no program was compiled for a while
_disks: dict[tuple[str, int], DiskCache | None] = {}


def _disk() -> DiskCache | None:
    """Return the cache that the settings ask for, None if there is none."""
    where = (config.cache_dir, config.cache_bytes)
    if where not in _disks:
        _disks[where] = _open_disk(*where)
    return _disks[where]


def _open_disk(folder: str, limit_bytes: int) -> DiskCache | None:
    if not folder:
        return None
    try:
        cache = DiskCache(folder, limit_bytes)
    except OSError as error:
        warnings.warn(f"compiled code is not kept on disk: {error}", RuntimeWarning, stacklevel=5)
        return None
    atexit.register(_close_disk, cache)
    return cache


def _close_disk(disk: DiskCache) -> None:
    for waiting in (_soon, _at_exit):
        _write(waiting, disk)
    disk.sweep_if_written()


def _write(waiting: dict[tuple[DiskCache, str], Image], only: DiskCache | None = None) -> None:
    """Write what waits, for one disk or for all; not into a folder that somebody has removed since."""
    with _lock:
        ready = [(disk, name, waiting.pop((disk, name))) for disk, name in tuple(waiting) if only in (None, disk)]
    for disk, name, image in ready:
        if os.path.isdir(disk.root):
            disk.put(name, image)


def find_kept(name: str) -> Image | None:
    """What `keep` was given under this name, by this process or an earlier one."""
    disk = _disk()
    return None if disk is None else _soon.get((disk, name)) or disk.get(name)


def keep(name: str, image: Image) -> None:
    """Keep an image that is no code on disk, when there is time."""
    disk = _disk()
    if disk is not None:
        with _lock:
            _soon[disk, name] = image
        if len(_soon) > _MOST_SOON:
            _write(_soon)


_identity: str | None = None


def _machine_identity() -> str:
    """Return a text that differs whenever the same IR would compile to other code.

    Where the system tells the processor's features, LLVM need not be asked: a process that finds
    all its code on disk never loads LLVM.
    """
    global _identity
    if _identity is None:
        _identity = _quick_identity() or repr(host())
    return _identity


def _quick_identity() -> str | None:
    spec = importlib.util.find_spec("llvmlite")
    if not IS_LINUX or spec is None or spec.origin is None:
        return None
    library = os.path.join(os.path.dirname(spec.origin), "binding", "libllvmlite.so")
    try:
        status = os.stat(library)
        with open("/proc/cpuinfo") as file:
            processor = file.read(16384).split("\n\n", 1)[0]
    except OSError:
        return None
    wanted = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU ", "Features")
    lines = [line for line in processor.splitlines() if line.startswith(wanted)]
    if not any(line.startswith(("flags", "Features")) for line in lines):
        return None
    return repr((library, status.st_size, status.st_mtime_ns, os.uname().machine, lines))


_host: Host | None = None


def host_machine() -> Host:
    """Return the machine code is generated for, as `llvm.host`.

    It is kept on disk with the code, so that only the first process has to load LLVM to know it.
    """
    global _host
    if _host is None:
        disk, key = _disk(), content_key("host", _FORMAT, _machine_identity())
        image = None if disk is None else disk.get(key)
        if image is not None:
            _host = Host(**json.loads(image.blob))
        else:
            _host = host()
            if disk is not None:
                disk.put(key, Image(json.dumps(asdict(_host)).encode(), {}))
    return _host


# ---- level 2, behind

_Callback = Callable[[dict[str, int]], None]
_Job = tuple[Code, Callable[[], _Callback | None]]
_THREAD_BYTES = 32 << 20  # of address space: its stack, and what Python needs for it to begin
_QUIET_S = 0.05  # programs come in bursts: level 2 waits until the burst is over
_last_compilation = [0.0]
_lock = fork_safe_lock()
_jobs: deque[_Job] = deque()
_thread: threading.Thread | None = None


def upgrade(code: Code, callback: _Callback) -> bool:
    """Compile `code` again at level 2 on another thread, then call ``callback(addresses)`` there.

    That begins when no program was compiled for a while. The old code stays valid, as threads may
    be inside it, and keeps the new code alive. A callback that is a method does not keep its object
    alive: when that is gone, so is the reason to compile. Returns whether the job was taken: not
    for level-2 code, nor when the interpreter is about to end. If it fails, the callback is not
    called; the reason is logged and kept in ``code.upgrade_error``.
    """
    global _thread
    if code.level == 2 or not threading.main_thread().is_alive():
        return False
    with _lock:
        _jobs.append((code, WeakMethod(callback) if inspect.ismethod(callback) else lambda: callback))
        if _thread is None:
            thread = threading.Thread(target=_work, name="fgrad-compile", daemon=False)
            try:
                need_room(_THREAD_BYTES, "compiling at level 2")
                thread.start()
            except (RuntimeError, OutOfMemoryError):  # the interpreter ends, or there is no thread or memory left
                _jobs.pop()
                return False
            _thread = thread
    return True


def upgrades_pending() -> bool:
    """Return whether the thread that compiles level 2 has work."""
    return _thread is not None


def _work() -> None:
    """Serve jobs until there are none left, or the main thread has ended."""
    global _thread
    while True:
        while time.monotonic() - _last_compilation[0] < _QUIET_S and threading.main_thread().is_alive():
            time.sleep(_QUIET_S / 5)
        _write(_soon)
        with _lock:
            if not _jobs or not threading.main_thread().is_alive():
                _jobs.clear()
                _thread = None
                return
            code, wanted = _jobs.popleft()
        callback = wanted()
        if callback is None:
            continue
        try:
            code.upgraded = _upgraded(code)
            code._text = ""
            callback(code.upgraded.addresses)
        except Exception as error:  # whatever it is, it must reach the owner and not end the thread
            code.upgrade_error = error
            if not threading.main_thread().is_alive():
                return  # the interpreter ends and may refuse anything
            if isinstance(error, OutOfMemoryError):
                _log.info("the program goes on at level 0: %s", error)
            else:
                _log.exception("compiling at level 2 failed; the program goes on at level 0")
        del code, callback, wanted


def _upgraded(code: Code) -> Code:
    found = _find(code._key, 2)
    if found is None:
        found = _publish(code._key, "", link(_compile_niced(code._text)), 2)
    return found


def _compile_niced(text: str) -> bytes:
    """Compile at level 2 on a thread of low priority that holds the GIL hardly ever.

    Linking stays on our own thread: a niced thread that is preempted with the GIL stops everyone.
    """
    result: list[bytes | Exception] = []

    def run() -> None:
        try:
            if IS_LINUX:  # a thread's own niceness exists only there
                _be_nice()
            result.append(compile_ir(text, 2))
        except Exception as error:
            result.append(error)

    thread = threading.Thread(target=run, name="fgrad-compile-niced", daemon=False)
    need_room(room_for(text) + _THREAD_BYTES, "compiling at level 2")
    try:
        thread.start()
    except RuntimeError as error:
        raise OutOfMemoryError(f"compiling at level 2: {error}") from error
    thread.join()
    outcome = result[0] if result else CompileError("the compile thread ended early")
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _be_nice() -> None:
    """Lower the priority of this thread, unless that of the process is lower already: nobody may raise it."""
    thread = threading.get_native_id()
    with contextlib.suppress(OSError):
        if os.getpriority(os.PRIO_PROCESS, thread) < _NICENESS:
            os.setpriority(os.PRIO_PROCESS, thread, _NICENESS)


def _forked(is_child: bool) -> None:
    """The child has no compile thread: jobs wait for the next `upgrade` there."""
    global _thread
    if is_child:
        _thread = None


after_fork(_forked)
