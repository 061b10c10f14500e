"""The language: interned UOps and Programs.

In: nothing. Out: UOp, Program. Promise: immutable, interned, checkable, printable.
"""
