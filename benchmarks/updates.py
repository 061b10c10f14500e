"""Work that changes a few numbers of a large array: its cost is that of the numbers, if it is done in place."""

import numpy as np

from benchmarks.work import Library, Run, Work

SIZE = 1 << 24  # 64 MiB of float32
STEPS = 1000
STRIDE = 16_381  # the places lie in different pages


def in_a_loop(lib: Library) -> Run:
    def steps(x, v):
        return lib.lax.fori_loop(0, STEPS, lambda i, x: x.at[i * STRIDE].set(v + i), x)

    return repeated(lib, lib.jit(steps, donate_argnums=0), lambda f, x: f(x, 1.5))


def in_a_loop_torch() -> Run:
    import torch

    x = torch.zeros(SIZE)

    def steps():
        for i in range(STEPS):
            x[i * STRIDE] = 1.5 + i
        return x

    return steps


def in_a_loop_numpy() -> Run:
    x = np.zeros(SIZE, np.float32)

    def steps():
        for i in range(STEPS):
            x[i * STRIDE] = 1.5 + i
        return x

    return steps


def by_calls(lib: Library) -> Run:
    def calls(f, x):
        for i in range(STEPS):
            x = f(x, i * STRIDE, 1.5)
        return x

    return repeated(lib, lib.jit(lambda x, i, v: x.at[i].set(v), donate_argnums=0), calls)


def rows_by_index(lib: Library) -> Run:
    """64 rows of 4096 are added to, some of them twice."""
    rows = lib.array(np.random.default_rng(3).integers(0, SIZE >> 12, 64).astype(np.int32))
    values = lib.array(np.ones((64, 1 << 12), np.float32))
    f = lib.jit(lambda x, i, v: x.at[i].add(v), donate_argnums=0)
    return repeated(lib, f, lambda f, x: f(x, rows, values), (SIZE >> 12, 1 << 12))


def a_ref(lib: Library) -> Run:
    ref = lib.new_ref(lib.np.zeros(SIZE, "float32"))

    @lib.jit
    def f(ref, i, v):
        ref[i] = v

    def calls():
        for i in range(STEPS):
            f(ref, i * STRIDE, 1.5)
        return ref[...][0]

    return calls


def repeated(lib: Library, f, use, shape=(SIZE,)) -> Run:
    """A run that applies `use(f, x)` to what the run before has left of x."""
    state = [lib.np.zeros(shape, "float32")]

    def run():
        state[0] = use(f, state[0])
        return state[0]

    return run


WORK = (
    Work("1000 updates of 64 MiB in a loop", 1.0, in_a_loop, in_a_loop_torch, in_a_loop_numpy),
    Work("1000 donating calls, 64 MiB", 0.3, by_calls),
    Work("add to 64 rows of 64 MiB", 1.0, rows_by_index, moved=3 * 64 * 4 * 4096),
    Work("1000 writes of a Ref, 64 MiB", 1.0, a_ref),
)
