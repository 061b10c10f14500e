"""The CPU as a device: LLVM IR text comes in, machine code in this process runs on its own threads.

Compiling (`llvm`), linking (`elf`), keeping (`diskcache`) and loading (`codemem`) meet in `code`.
Running is the native runtime (`native`), its worker pool (`workers`) and its ordered queue
(`queue`). Promise: what cannot be compiled or loaded is an exception, never an abort of the
process; native threads touch only memory that no Python object owns, so the interpreter may end at
any moment.
"""
