"""What became of a jitted function: its program, kernels, code and costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.errors import ArgumentError
from fgrad.hw.device import get_device
from fgrad.run.compile import compiled
from fgrad.trace import tree
from fgrad.trace.frames import trim_methods, trimmed
from fgrad.trace.tracer import aval_of
from fgrad.uop.aval import Aval
from fgrad.uop.dtype import to_dtype
from fgrad.uop.show import listing


class ShapeDtypeStruct:
    """The shape and dtype of an array that need not exist: an argument of `eval_shape`, `lower` and friends."""

    __slots__ = ("shape", "dtype", "weak_type")

    def __init__(self, shape: Any, dtype: Any, *, weak_type: bool = False, sharding: Any = None) -> None:
        self.shape = tuple(shape)
        self.dtype = to_dtype(dtype).np
        self.weak_type = weak_type

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return Aval(aval_of(self).dtype, self.shape).size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and (self.shape, self.dtype, self.weak_type) == (
            other.shape,
            other.dtype,
            other.weak_type,
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak_type))

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype}{weak})"


def struct_of(aval: Aval) -> ShapeDtypeStruct:
    """The ShapeDtypeStruct of an aval."""
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak)


class Lowered:
    """A function traced for one signature. `as_text(stage)` shows it; `compile()` gives a callable."""

    def __init__(
        self, dispatcher: Any, leaves: list[Any], in_tree: tree.TreeDef, statics: Any, donated: frozenset[int]
    ) -> None:
        self._dispatcher = dispatcher
        self._in_tree = in_tree
        self._statics = statics
        self._donated = donated
        self.in_avals = [x.aval if hasattr(x, "aval") else aval_of(x) for x in leaves]
        traced = dispatcher.trace(leaves, in_tree, statics, self.in_avals)
        self.program, self._sizes = dispatcher.program_for(traced.program, leaves, in_tree, statics, self.in_avals)
        self.out_tree, self.out_avals = traced.out_tree, traced.out_avals

    @property
    def out_info(self) -> Any:
        """The result's tree of ShapeDtypeStructs."""
        return tree.unflatten(self.out_tree, [struct_of(a) for a in self.out_avals])

    def _executable(self) -> Any:
        device = get_device()
        return compiled(self.program, device.name, frozenset(), self._donated, self._dispatcher.name)

    def as_text(self, stage: str = "program") -> str:
        """The function at `stage`: program, kernels, llvm, asm or commands."""
        if stage == "program":
            return listing(self.program)
        if stage not in ("kernels", "llvm", "asm", "commands"):
            raise ValueError(f"there is no stage {stage!r}; choose program, kernels, llvm, asm or commands")
        text: str = self._executable().text(stage)
        return text

    def compile(self) -> Callable[..., Any]:
        """A function of arguments of exactly this signature."""
        self._executable()

        def run(*args: Any, **kwargs: Any) -> Any:
            leaves, in_tree = tree.flatten((args, kwargs))
            if in_tree != self._in_tree:
                path, want, got = tree.difference(self._in_tree, in_tree, "(args, kwargs)") or ("", "", "")
                raise ArgumentError(f"compiled for {want} at {path}, called with {got}")
            for i, (x, a) in enumerate(zip(leaves, self.in_avals, strict=True)):
                b = aval_of(x)
                if (b.dtype, b.shape) != (a.dtype, a.shape):
                    raise ArgumentError(f"compiled for {a} at {tree.path_of_argument(in_tree, i)}, called with {b}")
            return self._dispatcher.call(leaves, in_tree, self._statics, self._donated)

        return trimmed(run)

    def cost_analysis(self) -> dict[str, float]:
        """Estimates for one call: `flops`, `bytes accessed`, `kernels`."""
        e = self._executable()
        return {"flops": float(e.flops), "bytes accessed": float(e.bytes), "kernels": float(e.kernel_count)}

    def memory_analysis(self) -> dict[str, int]:
        """Bytes of arguments, outputs and intermediates."""
        e = self._executable()
        return {
            "argument_bytes": sum(a.nbytes for a in self.in_avals),
            "output_bytes": sum(a.nbytes for a in self.out_avals),
            "temporary_bytes": e.arena_bytes,
        }


trim_methods(Lowered)

__all__ = ["Lowered", "ShapeDtypeStruct", "struct_of"]
