"""Caches of programs are bounded, can be emptied, and keep no array alive."""

import gc
import weakref

import numpy as np

from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.cache import clear, remember
from fgrad.uop.node import Storage, open_param, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Program, close
from fgrad.uop.simplify import simplify_program
from fgrad.uop.spec import verify


class Owner:
    """A user's array, as far as its lifetime goes."""

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.zeros(2, np.float32)


def test_a_program_is_computed_once_until_the_cache_is_emptied() -> None:
    calls = []

    @remember(4)
    def size(program: Program, more: int) -> int:
        calls.append(more)
        return len(program.nodes) + more

    x = open_param(dt.float32, ())
    program = close((x,), (b.neg(x),))
    assert [size(program, 1), size(program, 1), size(program, 2)] == [3, 3, 4]
    assert calls == [1, 2]
    clear()
    size(program, 1)
    assert calls == [1, 2, 1]


def test_caches_do_not_keep_the_arrays_of_buffers_alive() -> None:
    owner = Owner()
    gone = weakref.ref(owner)
    buffer = uop(Op.BUFFER, (), Storage(dt.float32, (2,), owner))
    program = Program((), (b.neg(b.neg(b.sin(buffer))),))
    verify(simplify_program(program))
    del owner, buffer, program
    gc.collect()
    assert gone() is None
