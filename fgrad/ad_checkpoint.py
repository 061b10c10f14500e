"""What reverse mode keeps between the forward and the backward pass: rules for it, names, and a look at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad import checkpoint_policies as checkpoint_policies
from fgrad.trace import tree
from fgrad.trace.checkpoint import checkpoint, checkpoint_name
from fgrad.trace.frames import trim_public
from fgrad.trace.staging import argument_names
from fgrad.trace.transforms import residuals_of
from fgrad.uop.aval import Aval
from fgrad.uop.op import Op

__all__ = [
    "checkpoint", "checkpoint_name", "checkpoint_policies", "print_saved_residuals", "remat", "saved_residuals",
]  # fmt: skip

remat = checkpoint


def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Aval, str]]:
    """What `vjp(f, *args)` would keep: for each value its dtype and shape, and where it comes from. Nothing is run.

    >>> saved_residuals(lambda x: fnp.sin(x) ** 2, 1.0)
    [(Aval(dtype=float32, shape=(), weak=False), 'the argument x')]
    """
    leaves, in_tree = tree.flatten((args, kwargs))
    names = argument_names(f, in_tree)

    def flat(*given: Any) -> Any:
        a, k = tree.unflatten(in_tree, given)
        return f(*a, **k)

    out = []
    for node, argument in residuals_of(flat, leaves):
        if argument is not None:
            source = f"the argument {names[argument]}"
        elif node.op is Op.PARAM:
            source = "an array that the function closes over"
        elif node.op is Op.GET and node.src[0].op is Op.CALL and node.src[0].arg.kind == "named":
            source = f"the value named {node.src[0].arg.name!r}"
        elif node.op is Op.GET and node.src[0].op is Op.CALL and node.src[0].arg.kind == "checkpoint":
            source = "a value that the policy of a checkpoint keeps"
        else:
            source = f"a result of {(node.src[0] if node.op is Op.GET else node).op.name}"
        out.append((Aval(node.dtype, node.shape), source))
    return out


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print what `vjp(f, *args)` would keep, one value a line.

    >>> print_saved_residuals(lambda x: fnp.sin(x) ** 2, 1.0)
    float32[] from the argument x
    """
    for aval, source in saved_residuals(f, *args, **kwargs):
        print(f"{aval} from {source}")

trim_public(globals(), __all__)
