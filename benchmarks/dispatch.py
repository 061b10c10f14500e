"""Calls whose work is nothing: what remains is the way there and back."""

from benchmarks.work import Library, Run, Work, numbers


def small_array(lib: Library) -> Run:
    f = lib.jit(lambda x: x + 1)
    x = lib.array(numbers(4))
    return lambda: f(x)


def tree_of_eight(lib: Library) -> Run:
    f = lib.jit(lambda tree: {name: x + 1 for name, x in tree.items()})
    tree = {f"w{i}": lib.array(numbers(4, seed=i)) for i in range(8)}
    return lambda: f(tree)


def eager_add(lib: Library) -> Run:
    x = lib.array(numbers(4))
    return lambda: x + x


def eager_add_torch() -> Run:
    import torch

    x = torch.from_numpy(numbers(4))
    return lambda: x + x


WORK = (
    Work("jit call, 1 small array", 0.1, small_array),
    Work("jit call, tree of 8 in and out", 0.2, tree_of_eight),
    Work("eager x + x, 4 elements", 1.0, eager_add, eager_add_torch),
)
