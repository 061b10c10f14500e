"""What became of a jitted function: its program, kernels, code and costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fgrad.errors import ArgumentError
from fgrad.hw.device import get_device
from fgrad.run.compile import compiled
from fgrad.trace import tree
from fgrad.trace.frames import trim_methods
from fgrad.trace.tracer import aval_of
from fgrad.uop.aval import Aval
from fgrad.uop.dtype import to_dtype
from fgrad.uop.show import listing


class ShapeDtypeStruct:
    """The shape and dtype of an array that need not exist: an argument of `eval_shape`, `lower` and friends.

    >>> eval_shape(fnp.sum, ShapeDtypeStruct((2, 3), "float32"))
    ShapeDtypeStruct(shape=(), dtype=float32)
    """

    __slots__ = ("shape", "dtype", "weak_type")

    def __init__(self, shape: Any, dtype: Any, *, weak_type: bool = False, sharding: Any = None) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        self.shape = tuple(shape)
        self.dtype = to_dtype(dtype).np
        self.weak_type = weak_type

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def __bool__(self) -> bool:
        return True  # also of length 0

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


@dataclass(frozen=True, slots=True)
class ArgInfo:
    """What an argument of a lowered function is: its shape and dtype, and whether its memory may be reused."""

    shape: tuple[int, ...]
    dtype: Any
    donated: bool


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

    @property
    def args_info(self) -> Any:
        """(args, kwargs) with an `ArgInfo` for each array."""
        infos = [ArgInfo(a.shape, a.dtype.np, i in self._donated) for i, a in enumerate(self.in_avals)]
        return tree.unflatten(self._in_tree, infos)

    def compile(self) -> Compiled:
        """A function of arguments of exactly this signature."""
        self._executable()
        return Compiled(self)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run it on arguments of this signature; raises TypeError for others."""
        leaves, in_tree = tree.flatten_arrays((args, kwargs))
        name = self._dispatcher.name
        if in_tree != self._in_tree:
            path, want, got = tree.difference(self._in_tree, in_tree, "(args, kwargs)") or ("", "", "")
            raise ArgumentError(
                "Function compiled with input pytree does not match the input pytree it was called with: "
                f"{name} was compiled for {want} at {path}, called with {got}"
            )
        differ = []
        for i, (x, a) in enumerate(zip(leaves, self.in_avals, strict=True)):
            b = aval_of(x)
            if (b.dtype, b.shape) != (a.dtype, a.shape):
                differ.append(f"Argument {tree.path_of_argument(in_tree, i)!r} compiled with {a} and called with {b}")
        if differ:
            raise ArgumentError(
                f"Argument types differ from those for which {name} was compiled. The mismatches are:\n"
                + "\n".join(differ)
            )
        return self._dispatcher.call(leaves, in_tree, self._statics, self._donated)

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


class Compiled:
    """A compiled function of arguments of one signature; calling it with others raises TypeError.

    `as_text`, `cost_analysis`, `memory_analysis`, `args_info`, `out_info`, `out_tree`, `in_avals` and `out_avals` are
    those of the `Lowered` that it was made of.
    """

    def __init__(self, lowered: Lowered) -> None:
        self._lowered = lowered

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._lowered.call(args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in _OF_LOWERED:
            return getattr(self._lowered, name)
        raise AttributeError(f"a compiled function has no attribute {name!r}; it has {', '.join(sorted(_OF_LOWERED))}")


_OF_LOWERED = frozenset(
    {"args_info", "as_text", "cost_analysis", "in_avals", "memory_analysis", "out_avals", "out_info", "out_tree"}
)

trim_methods(Lowered)
trim_methods(Compiled, ("__call__",))

__all__ = ["ArgInfo", "Compiled", "Lowered", "ShapeDtypeStruct", "struct_of"]
