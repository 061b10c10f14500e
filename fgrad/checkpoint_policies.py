"""What `fgrad.checkpoint(policy=)` keeps of a function's intermediate values, instead of computing them again.

A policy takes a value of the traced function and says whether it is kept.

>>> import fgrad
>>> layer = fgrad.checkpoint(lambda w, x: fgrad.numpy.sin(w @ x), policy=dots_saveable)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.trace.products import is_expanded, is_outer
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

Policy = Callable[[Any], bool]


def everything_saveable(value: Any) -> bool:
    """Keep every value: as without checkpoint.

    >>> from fgrad.ad_checkpoint import print_saved_residuals
    >>> twice = fgrad.checkpoint(lambda x: fnp.sin(fnp.sin(x)), policy=everything_saveable)
    >>> print_saved_residuals(twice, 1.0)
    float32[] from the argument x
    float32[] from a value that the policy of a checkpoint keeps
    float32[] from a value that the policy of a checkpoint keeps
    float32[] from a value that the policy of a checkpoint keeps
    """
    return True


def nothing_saveable(value: Any) -> bool:
    """Keep nothing but the inputs: as without a policy.

    >>> from fgrad.ad_checkpoint import print_saved_residuals
    >>> print_saved_residuals(fgrad.checkpoint(fnp.tanh, policy=nothing_saveable), 1.0)
    float32[] from the argument x
    """
    return False


def dots_saveable(value: Any) -> bool:
    """Keep the results of matrix products and convolutions. (Of two vectors: the product is a sum like any other.)

    >>> from fgrad.ad_checkpoint import print_saved_residuals
    >>> layer = fgrad.checkpoint(lambda w, x: fnp.tanh(w @ x), policy=dots_saveable)
    >>> print_saved_residuals(layer, fnp.ones((3, 2)), fnp.ones(2))
    float32[3,2] from the argument w
    float32[2] from the argument x
    float32[3] from a value that the policy of a checkpoint keeps
    """
    if not _is_sum(value) or value.src[0].op is not Op.MUL:
        return False
    product = value.src[0]
    if is_outer(product):
        return True
    # a matrix and a vector: only the vector is expanded. Without any it is a sum of an elementwise product
    own = [_own_axes(factor, product.ndim) for factor in product.src]
    return any(is_expanded(factor) for factor in product.src) and set(value.arg[1]) <= own[0] & own[1]


def dots_with_no_batch_dims_saveable(value: Any) -> bool:
    """Keep the results of products in which no axis of the result belongs to both factors.

    >>> from fgrad.ad_checkpoint import print_saved_residuals
    >>> products = fgrad.checkpoint(lambda x, y: fnp.tanh(x @ y), policy=dots_with_no_batch_dims_saveable)
    >>> print_saved_residuals(products, fnp.ones((4, 3, 2)), fnp.ones((4, 2, 3)))
    float32[4,3,2] from the argument x
    float32[4,2,3] from the argument y
    """
    if not dots_saveable(value):
        return False
    product = value.src[0]
    own = [_own_axes(factor, product.ndim) for factor in product.src]
    return all(not (i in own[0] and i in own[1]) for i in range(product.ndim) if i not in value.arg[1])


def save_only_these_names(*names: str) -> Policy:
    """The policy that keeps the values which `ad_checkpoint.checkpoint_name` gave one of these names.

    >>> from fgrad.ad_checkpoint import checkpoint_name, print_saved_residuals
    >>> def block(x):
    ...     return fnp.sin(checkpoint_name(fnp.sin(x), "inner"))
    >>> print_saved_residuals(fgrad.checkpoint(block, policy=save_only_these_names("inner")), 1.0)
    float32[] from the argument x
    float32[] from a value that the policy of a checkpoint keeps
    """
    return lambda value: _name(value) in names


def save_any_names_but_these(*names: str) -> Policy:
    """The policy that keeps the values with a name, unless it is one of these.

    >>> from fgrad.ad_checkpoint import checkpoint_name, print_saved_residuals
    >>> def block(x):
    ...     return fnp.sin(checkpoint_name(fnp.sin(x), "inner"))
    >>> print_saved_residuals(fgrad.checkpoint(block, policy=save_any_names_but_these("inner")), 1.0)
    float32[] from the argument x
    """
    return lambda value: _name(value) is not None and _name(value) not in names


def save_anything_except_these_names(*names: str) -> Policy:
    """The policy that keeps every value but those with one of these names.

    >>> from fgrad.ad_checkpoint import checkpoint_name, print_saved_residuals
    >>> def block(x):
    ...     return fnp.sin(checkpoint_name(fnp.sin(x), "inner"))
    >>> print_saved_residuals(fgrad.checkpoint(block, policy=save_anything_except_these_names("inner")), 1.0)
    float32[] from the argument x
    float32[] from a value that the policy of a checkpoint keeps
    float32[] from a value that the policy of a checkpoint keeps
    float32[] from a value that the policy of a checkpoint keeps
    """
    return lambda value: _name(value) not in names


def save_and_offload_only_these_names(**_: Any) -> Policy:
    """Not supported: there is no other memory to move values to. Use `save_only_these_names`.

    >>> save_and_offload_only_these_names(names_which_can_be_saved=["inner"])
    Traceback (most recent call last):
    NotImplementedError: values cannot be offloaded to another memory; use save_only_these_names
    """
    raise NotImplementedError("values cannot be offloaded to another memory; use save_only_these_names")


def save_from_both_policies(first: Policy, second: Policy) -> Policy:
    """The policy that keeps what either of two policies keeps.

    >>> from fgrad.ad_checkpoint import print_saved_residuals
    >>> policy = save_from_both_policies(dots_saveable, save_only_these_names("inner"))
    >>> layer = fgrad.checkpoint(lambda w, x: fnp.tanh(w @ x), policy=policy)
    >>> print_saved_residuals(layer, fnp.ones((3, 2)), fnp.ones(2))
    float32[3,2] from the argument w
    float32[2] from the argument x
    float32[3] from a value that the policy of a checkpoint keeps
    """
    return lambda value: bool(first(value) or second(value))


def _name(u: UOp) -> str | None:
    """The name that a value was given."""
    if u.op is Op.GET and u.src[0].op is Op.CALL and u.src[0].arg.kind == "named":
        return str(u.src[0].arg.name)
    return None


def _is_sum(u: UOp) -> bool:
    return u.op is Op.REDUCE and u.arg[0] is Op.ADD


def _own_axes(factor: UOp, ndim: int) -> set[int]:
    """The axes along which a factor of a product varies: those that no EXPAND put in."""
    axes: list[int | None] = list(range(ndim))  # axis of `factor` -> axis of the product
    while factor.op in (Op.PERMUTE, Op.EXPAND, Op.NEG, Op.CAST):
        if factor.op is Op.PERMUTE:
            back: list[int | None] = [None] * len(axes)
            for at, source in enumerate(factor.arg):
                back[source] = axes[at]
            axes = back
        elif factor.op is Op.EXPAND:
            new = {axis for axis, _ in factor.arg}
            axes = [a for i, a in enumerate(axes) if i not in new]
        factor = factor.src[0]
    return {a for a in axes if a is not None}


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable

__all__ = [
    "checkpoint_dots", "checkpoint_dots_with_no_batch_dims", "dots_saveable", "dots_with_no_batch_dims_saveable",
    "everything_saveable", "nothing_saveable", "save_and_offload_only_these_names", "save_any_names_but_these",
    "save_anything_except_these_names", "save_from_both_policies", "save_only_these_names",
]  # fmt: skip
