"""Micro-kernels of contractions, as LLVM text: compiled once per machine, shared by every program.

In: the machine (bytes of a vector, registers, fused multiply-add) and a key. Out: text and the
names in it. Programs reach the functions through pointers in the runtime table (`slots.py` numbers
them), so no compiled program holds their addresses. `driver.py` says how they work together.
"""
