"""The meaning: from Python functions to Programs, and from Programs to Programs.

In: a function and avals. Out: Program. Promise: pure; writes are versions, Ref effects are listed; every transform
is closed over Programs.
"""
