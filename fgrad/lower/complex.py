"""Complex values as pairs of real ones: the pass before everything else."""

from __future__ import annotations

from fgrad.uop.node import toposort
from fgrad.uop.program import Program


def real_program(program: Program) -> Program:
    """`program` without complex dtypes."""
    for u in toposort(program.outs):
        dtypes = u.dtype if isinstance(u.dtype, tuple) else (u.dtype,)
        if any(d.is_complex for d in dtypes):
            raise NotImplementedError("complex")
    return program
