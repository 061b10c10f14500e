"""Where arrays live, and waiting for them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from fgrad.config import config
from fgrad.errors import ArgumentError, describe
from fgrad.hw.device import get_device, kinds
from fgrad.run.array import DeviceArray, empty, from_host
from fgrad.trace import tree
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trim
from fgrad.trace.tracer import Tracer, aval_of, is_arraylike, is_scalar, lift


def device_put(x: Any, device: Any = None, *, donate: bool = False) -> Any:
    """The arrays of a pytree on `device` (a name such as "cpu:1", or a device; None: the default one).

    NumPy arrays and numbers are copied now; arrays that are there already are returned as they are. Between the
    devices of one machine (cpu, cpu:1) the copy is queued, and the caller goes on.

    >>> device_put(np.arange(3))
    Array([0, 1, 2], dtype=int64)
    """
    target = get_device(device) if device is None or isinstance(device, str) else device

    def put(leaf: Any) -> Any:
        if isinstance(leaf, Tracer):
            return leaf
        if isinstance(leaf, DeviceArray):
            return leaf if leaf.device is target else _moved(leaf, target)
        if not is_arraylike(leaf):
            raise ArgumentError(f"device_put takes arrays and numbers, got {describe(leaf)}")
        # lifting an array would copy it once more
        aval = aval_of(leaf) if isinstance(leaf, np.ndarray) else lift(leaf).aval
        return from_host(np.asarray(leaf), dtype=aval.dtype, weak=aval.weak, device=target)

    return tree.map_(put, x)


def _moved(array: DeviceArray, target: Any) -> DeviceArray:
    """A copy on another device; where both have queues of one kind, it is queued, and nobody waits."""
    aval, source = array.aval, array.device
    try:
        source.check_readable()
        out = empty(aval.dtype, aval.shape, aval.weak, target)
        from fgrad.hw.transfer import copy

        fence = copy(target, out.addr, source, array.addr, array.nbytes)
        if config.sync:
            fence.wait()
    except Exception as error:
        trim(error)
        raise
    return out


def device_get(x: Any) -> Any:
    """The pytree with every array as a NumPy array (read-only views of host memory where possible).

    Python numbers and NumPy scalars stay what they are.

    >>> device_get({"a": fnp.ones(2)})
    {'a': array([1., 1.], dtype=float32)}
    """

    def get(leaf: Any) -> Any:
        if isinstance(leaf, DeviceArray):
            return np.asarray(leaf)  # marks the buffer as seen from outside: it is not reused when donated
        return leaf.concrete() if isinstance(leaf, Array) else leaf if is_scalar(leaf) else np.asarray(leaf)

    return tree.map_(get, x)


def block_until_ready(x: Any) -> Any:
    """Wait until all arrays of a pytree are there; returns the pytree.

    Raises here what went wrong in a computation.

    >>> block_until_ready({"a": fnp.ones(2)})
    {'a': Array([1., 1.], dtype=float32)}
    """
    for leaf in tree.leaves_of(x):
        if isinstance(leaf, DeviceArray):
            leaf.block_until_ready()
    return x


def devices(kind: str | None = None) -> list[Any]:
    """The default device, or the first one of `kind`, in a list.

    >>> len(devices("cpu"))
    1
    """
    return [get_device(kind)]


def device_count(kind: str | None = None) -> int:
    """How many devices of `kind` there are (the default kind for None).

    >>> device_count() >= 1
    True
    """
    return len(devices(kind))


def local_devices(kind: str | None = None) -> list[Any]:
    """The devices of this process: the same as `devices`, for there is one process.

    >>> local_devices() == devices()
    True
    """
    return devices(kind)


def local_device_count(kind: str | None = None) -> int:
    """How many devices of `kind` this process has: as `device_count`.

    >>> local_device_count() == device_count()
    True
    """
    return device_count(kind)


def process_count() -> int:
    """How many processes take part: 1.

    >>> process_count()
    1
    """
    return 1


def process_index() -> int:
    """The number of this process: 0.

    >>> process_index()
    0
    """
    return 0


def device_kinds() -> list[str]:
    """The kinds of device fgrad knows."""
    return kinds()


def default_device(device: Any) -> AbstractContextManager[None]:
    """Use `device` (a device or its name) inside the block wherever none is given. Raises DeviceMissingError.

    >>> with default_device("cpu"):
    ...     x = fnp.ones(2)
    """
    return config.override(device=(get_device(device) if isinstance(device, str) else device).name)
