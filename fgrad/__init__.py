"""fgrad: array programs that can be differentiated, vectorised and compiled."""

import gc as _gc
import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

_collects = _gc.isenabled()
_gc.disable()  # importing makes many objects and no garbage: a tenth of its time would go to looking for some

from fgrad import errors as errors
from fgrad import numpy as numpy
from fgrad._version import __version__ as __version__
from fgrad.backends import machines as _machines  # noqa: F401  registers the devices
from fgrad.config import config as config
from fgrad.run import compile as _compile  # noqa: F401  lends tracing its executor
from fgrad.run.caches import clear_caches as clear_caches
from fgrad.run.contexts import checking_leaks as checking_leaks
from fgrad.run.contexts import debug_key_reuse as debug_key_reuse
from fgrad.run.contexts import disable_jit as disable_jit
from fgrad.run.contexts import no_tracing as no_tracing
from fgrad.run.inspect import ShapeDtypeStruct as ShapeDtypeStruct
from fgrad.run.jit import jit as jit
from fgrad.run.placement import block_until_ready as block_until_ready
from fgrad.run.placement import default_device as default_device
from fgrad.run.placement import device_count as device_count
from fgrad.run.placement import device_get as device_get
from fgrad.run.placement import device_put as device_put
from fgrad.run.placement import devices as devices
from fgrad.run.placement import local_device_count as local_device_count
from fgrad.run.placement import local_devices as local_devices
from fgrad.run.placement import process_count as process_count
from fgrad.run.placement import process_index as process_index
from fgrad.run.program import closure_convert as closure_convert
from fgrad.run.program import eval_shape as eval_shape
from fgrad.run.program import make_program as make_program
from fgrad.run.program import named_call as named_call
from fgrad.run.program import typeof as typeof
from fgrad.trace import frames as _frames
from fgrad.trace.arraylike import Array as Array
from fgrad.trace.callback import io_callback as io_callback
from fgrad.trace.callback import pure_callback as pure_callback
from fgrad.trace.checkpoint import checkpoint as checkpoint
from fgrad.trace.custom_jvp import custom_jvp as custom_jvp
from fgrad.trace.custom_vjp import custom_gradient as custom_gradient
from fgrad.trace.custom_vjp import custom_vjp as custom_vjp
from fgrad.trace.gradient import grad as grad
from fgrad.trace.gradient import value_and_grad as value_and_grad
from fgrad.trace.jacobian import hessian as hessian
from fgrad.trace.jacobian import jacfwd as jacfwd
from fgrad.trace.jacobian import jacrev as jacrev
from fgrad.trace.ref import Ref as Ref
from fgrad.trace.ref import empty_ref as empty_ref
from fgrad.trace.ref import free_ref as free_ref
from fgrad.trace.ref import freeze as freeze
from fgrad.trace.ref import new_ref as new_ref
from fgrad.trace.ref import swap as swap
from fgrad.trace.stage import suspended as ensure_compile_time_eval
from fgrad.trace.transforms import jvp as jvp
from fgrad.trace.transforms import linear_transpose as linear_transpose
from fgrad.trace.transforms import linearize as linearize
from fgrad.trace.transforms import vjp as vjp
from fgrad.trace.vmap import vmap as vmap
from fgrad.uop import infer as _infer  # noqa: F401  fills the table of shapes

if _collects:
    if not _gc.get_freeze_count():  # modules are old at once: the next collection need not look at them
        _gc.freeze()
        _gc.unfreeze()
    _gc.enable()

if _TYPE_CHECKING:
    from fgrad import ad_checkpoint as ad_checkpoint
    from fgrad import checkpoint_policies as checkpoint_policies
    from fgrad import custom_batching as custom_batching
    from fgrad import custom_derivatives as custom_derivatives
    from fgrad import debug as debug
    from fgrad import dlpack as dlpack
    from fgrad import dtypes as dtypes
    from fgrad import flatten_util as flatten_util
    from fgrad import image as image
    from fgrad import interop as interop
    from fgrad import lax as lax
    from fgrad import nn as nn
    from fgrad import ops as ops
    from fgrad import optim as optim
    from fgrad import profiler as profiler
    from fgrad import random as random
    from fgrad import ref as ref
    from fgrad import scipy as scipy
    from fgrad import storage as storage
    from fgrad import test_util as test_util
    from fgrad import tree as tree
    from fgrad import tree_util as tree_util
    from fgrad.kernels import kernel_call as kernel_call
    from fgrad.run.sizes import Size as Size

remat = checkpoint
device = default_device
jacobian = jacrev
make_jaxpr = make_program  # the name that code written for JAX calls it by

# imported when first asked for: half of the time of `import fgrad` would be theirs
_MODULES = frozenset(
    {
        "ad_checkpoint",
        "checkpoint_policies",
        "custom_batching",
        "custom_derivatives",
        "debug",
        "dlpack",
        "dtypes",
        "flatten_util",
        "image",
        "interop",
        "lax",
        "nn",
        "ops",
        "optim",
        "profiler",
        "random",
        "ref",
        "scipy",
        "test_util",
        "storage",
        "tree",
        "tree_util",
    }
)


@_frames.trimmed
def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _import_module(f"fgrad.{name}")
    if name == "kernel_call":
        return _import_module("fgrad.kernels").kernel_call
    if name == "Size":
        return _import_module("fgrad.run.sizes").Size
    if not name.startswith("_"):
        instead = _import_module("fgrad.run.absent").absent(name)
        if instead is not None:
            return instead
    raise AttributeError(f"module 'fgrad' has no attribute {name!r}", name=name, obj=_sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Array",
    "Ref",
    "ShapeDtypeStruct",
    "Size",
    "ad_checkpoint",
    "block_until_ready",
    "checking_leaks",
    "checkpoint",
    "checkpoint_policies",
    "clear_caches",
    "closure_convert",
    "config",
    "custom_batching",
    "custom_derivatives",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "debug_key_reuse",
    "default_device",
    "device",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "disable_jit",
    "dlpack",
    "dtypes",
    "empty_ref",
    "ensure_compile_time_eval",
    "errors",
    "eval_shape",
    "flatten_util",
    "free_ref",
    "freeze",
    "grad",
    "hessian",
    "image",
    "interop",
    "io_callback",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "kernel_call",
    "lax",
    "linear_transpose",
    "linearize",
    "local_device_count",
    "local_devices",
    "make_jaxpr",
    "make_program",
    "named_call",
    "new_ref",
    "nn",
    "no_tracing",
    "numpy",
    "ops",
    "optim",
    "process_count",
    "process_index",
    "profiler",
    "pure_callback",
    "random",
    "ref",
    "remat",
    "scipy",
    "swap",
    "test_util",
    "tree",
    "tree_util",
    "typeof",
    "value_and_grad",
    "vjp",
    "vmap",
]

_frames.trim_public(globals(), __all__)
