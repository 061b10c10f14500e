"""IR text to object bytes, through libllvmlite, with every failure an exception.

The library is called directly: each compilation has a context of its own and borrows a target
machine that nobody else uses meanwhile, so threads compile side by side and a fork leaves no lock
behind. llvmlite's Python interface, which takes one lock around every call, stands in where the
library is not the one we know. llvmlite is loaded at the first use of this module's functions, not
at its import.

`-disable-lsr` is set for the whole process (loop strength reduction undoes our addressing); other
users of llvmlite in this process compile with it too.
"""

import ctypes
import re
import sys
import threading
from dataclasses import dataclass
from typing import Any, Protocol

from fgrad.backends.cpu.forks import fork_safe_lock
from fgrad.errors import CompileError
from fgrad.hw.libc import as_function, ffi
from fgrad.hw.pool import need_room

LEVELS = (0, 2)
# LLVM ends the process when it finds no memory, so there must be some: a few times what it was seen to take
_LIBRARY_BYTES, _COMPILER_BYTES, _BYTES_PER_CHARACTER = 200 << 20, 32 << 20, 128
# inline assembly and scalable vectors end the process inside LLVM, so they never get there
_ABORTS = re.compile(r'\basm\s+(?:\w+\s+)*"|<\s*vscale\b')


@dataclass(frozen=True, slots=True)
class Host:
    """The machine that code is generated for: LLVM's words for it, and which LLVM."""

    triple: str
    cpu: str
    features: str
    llvm: str

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features this machine has, such as ``avx2``."""
        return tuple(word[1:] for word in self.features.split(",") if word.startswith("+"))


class _Service(Protocol):
    """Something that makes an object of IR text."""

    host: Host

    def compile(self, ir: str, level: int, *, as_object: bool = True) -> bytes: ...


_lock = fork_safe_lock()
_service: _Service | None = None


def host() -> Host:
    """Return the machine this process runs on, as LLVM sees it."""
    return _start().host


def compile_ir(text: str, level: int = 2) -> bytes:
    """Return the ELF object for a module of LLVM IR, compiled for this machine.

    level  of code generation: 0 compiles fastest, 2 runs fastest; no IR passes run at either

    Safe from any thread; the GIL is released meanwhile. Raises CompileError with the refused line.
    The text must not hold what makes LLVM abort: intrinsics of features this machine lacks, calls
    of functions that LLVM would expand to libm (those are a LinkError later), integers above i128.
    Raises OutOfMemoryError where there is no memory for LLVM to work in.
    """
    return _compile(text, level, as_object=True)


def assembly(text: str, level: int = 2) -> str:
    """Return the assembly for a module of LLVM IR, to be read by people; as `compile_ir` else."""
    return _compile(text, level, as_object=False).decode()


def _compile(text: str, level: int, *, as_object: bool) -> bytes:
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS}, got {level}")
    found = _ABORTS.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise CompileError(f"line {line}: inline assembly and scalable vectors are not supported")
    service = _start()
    need_room(room_for(text), "compiling")
    return service.compile(text, level, as_object=as_object)


def room_for(text: str) -> int:
    """Bytes that compiling a module may take."""
    return _COMPILER_BYTES + _BYTES_PER_CHARACTER * len(text)


def _start() -> _Service:
    global _service
    if _service is None:
        with _lock:
            if _service is None:
                _service = _make_service()
    return _service


def _make_service() -> _Service:
    if "llvmlite.binding" not in sys.modules:
        need_room(_LIBRARY_BYTES, "loading LLVM")
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.set_option("fgrad", "-disable-lsr")
    host = _find_host(binding)
    library = _bind(binding)
    return _LlvmliteService(binding, host) if library is None else _RawService(library, host)


def _find_host(binding: Any) -> Host:
    triple, features = binding.get_process_triple(), binding.get_host_cpu_features().flatten()
    if sys.platform in ("darwin", "win32"):
        triple += "-elf"  # our loader reads ELF everywhere
        if triple.startswith(("arm64", "aarch64")):
            features += ",+reserve-x18"  # belongs to the system there
    version = ".".join(map(str, binding.llvm_version_info))
    return Host(triple, binding.get_host_cpu_name(), features, version)


# name: C type; each must exist, and take as many arguments as llvmlite itself declares
_FUNCTIONS = {
    "LLVMPY_ContextCreate": "void*(*)(void)",
    "LLVMPY_ContextDispose": "void(*)(void*)",
    "LLVMPY_ParseAssembly": "void*(*)(void*, const char*, char**)",
    "LLVMPY_VerifyModule": "_Bool(*)(void*, char**)",
    "LLVMPY_DisposeModule": "void(*)(void*)",
    "LLVMPY_GetTargetFromTriple": "void*(*)(const char*, char**)",
    "LLVMPY_CreateTargetMachine": "void*(*)(void*, const char*, const char*, const char*, int,"
    " const char*, const char*, int, int, const char*)",
    "LLVMPY_TargetMachineEmitToMemory": "void*(*)(void*, void*, int, char**)",
    "LLVMPY_GetBufferStart": "void*(*)(void*)",
    "LLVMPY_GetBufferSize": "size_t(*)(void*)",
    "LLVMPY_DisposeMemoryBuffer": "void(*)(void*)",
    "LLVMPY_DisposeString": "void(*)(char*)",
}


def _bind(binding: Any) -> dict[str, Any] | None:
    """Return the library's functions by short name, None if it is not the library we know."""
    functions = {}
    try:
        declared, library = binding.ffi.lib, ctypes.CDLL(binding.ffi.lib._name)
        for name, signature in _FUNCTIONS.items():
            argument_count = 0 if "(void)" in signature else signature.count(",") + 1
            expected = getattr(declared, name).argtypes  # None where llvmlite declares nothing
            if expected is not None and len(expected) != argument_count:
                return None
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
            functions[name.removeprefix("LLVMPY_")] = as_function(address, signature)
    except (AttributeError, OSError, TypeError):
        return None
    return functions


class _RawService:
    """The library without llvmlite's lock."""

    def __init__(self, functions: dict[str, Any], host: Host) -> None:
        self.host = host
        self._call = functions
        self._machines: dict[int, list[Any]] = {level: [] for level in LEVELS}  # those not in use

    def compile(self, ir: str, level: int, *, as_object: bool = True) -> bytes:
        call, error = self._call, ffi.new("char**")
        machine = self._take_machine(level)
        context = call["ContextCreate"]()
        module = ffi.NULL
        try:
            module = call["ParseAssembly"](context, ffi.from_buffer(ir.encode() + b"\0"), error)
            if not module or call["VerifyModule"](module, error):
                raise _refused(ir, self._text(error))
            buffer = call["TargetMachineEmitToMemory"](machine, module, as_object, error)
            if not buffer:
                raise CompileError(f"LLVM cannot generate code: {self._text(error)}")
            try:
                start, size = call["GetBufferStart"](buffer), call["GetBufferSize"](buffer)
                return bytes(ffi.buffer(ffi.cast("char*", start), size))
            finally:
                call["DisposeMemoryBuffer"](buffer)
        finally:
            if module:
                call["DisposeModule"](module)
            call["ContextDispose"](context)
            self._machines[level].append(machine)

    def _take_machine(self, level: int) -> Any:
        try:
            return self._machines[level].pop()
        except IndexError:
            return self._make_machine(level)

    def _make_machine(self, level: int) -> Any:
        error = ffi.new("char**")
        triple, cpu, features, pic, small, abi = (
            ffi.new("char[]", text.encode())
            for text in (self.host.triple, self.host.cpu, self.host.features, "pic", "small", "")
        )
        target = self._call["GetTargetFromTriple"](triple, error)
        if not target:
            raise CompileError(f"LLVM does not know this machine: {self._text(error)}")
        machine = self._call["CreateTargetMachine"](
            target, triple, cpu, features, level, pic, small, 0, 0, abi
        )
        if not machine:
            raise CompileError(f"LLVM has no code generator for {self.host.triple}")
        return machine

    def _text(self, error: Any) -> str:
        if not error[0]:
            return "no reason given"
        text: str = ffi.string(error[0]).decode(errors="replace")
        self._call["DisposeString"](error[0])
        error[0] = ffi.NULL
        return text


class _LlvmliteService:
    """llvmlite's own interface: right, but one thread at a time."""

    def __init__(self, binding: Any, host: Host) -> None:
        self.host = host
        self._binding = binding
        self._machines = threading.local()

    def compile(self, ir: str, level: int, *, as_object: bool = True) -> bytes:
        try:
            module = self._binding.parse_assembly(ir, self._binding.create_context())
            module.verify()
        except RuntimeError as error:
            raise _refused(ir, str(error)) from None
        try:
            machine = self._machine(level)
            if as_object:
                return bytes(machine.emit_object(module))
            return str(machine.emit_assembly(module)).encode()
        except RuntimeError as error:
            raise CompileError(f"LLVM cannot generate code: {error}") from None

    def _machine(self, level: int) -> Any:
        machines: dict[Any, Any] = self._machines.__dict__
        if level not in machines:
            target = self._binding.Target.from_triple(self.host.triple)
            machines[level] = target.create_target_machine(
                cpu=self.host.cpu,
                features=self.host.features,
                opt=level,
                reloc="pic",
                codemodel="small",
            )
        return machines[level]


def _refused(ir: str, reason: str) -> CompileError:
    """Return the error for text that LLVM did not accept, with the line it is about."""
    place = re.search(r":(\d+):(\d+): error: (.*)", reason)
    if not place:
        return CompileError(f"LLVM refused the module: {reason.strip()}")
    number = int(place[1])
    lines = ir.split("\n")
    line = lines[number - 1] if number <= len(lines) else ""
    where = f"line {number}, column {place[2]}"
    return CompileError(f"LLVM refused {where}: {place[3]}\n  {line.strip()}")
