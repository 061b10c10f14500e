"""Random Ref programs for as long as one likes: python -m tests.order.fuzz 1000 [first seed]."""

from __future__ import annotations

import sys

import numpy as np

from tests.order.model import check, random_program


def main(count: int, first: int = 0) -> None:
    for seed in range(first, first + count):
        program = random_program(np.random.default_rng(seed))
        try:
            check(program, seed)
        except Exception:
            print(f"seed {seed}: {program}")
            raise
    print(f"{count} programs did what NumPy does")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
