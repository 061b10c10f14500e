"""Files shared with other libraries: safetensors (an 8-byte length, a JSON header, the elements row by row).

Source of the format: https://huggingface.co/docs/safetensors. No other package is needed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, DtypeError, describe, note_user_line
from fgrad.run.array import DeviceArray, from_host
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trim_public
from fgrad.trace.tracer import lift
from fgrad.uop import dtype as dt

__all__ = ["load_safetensors", "safetensors_metadata", "save_safetensors"]

NAMES = {
    "BOOL": dt.bool_, "U8": dt.uint8, "I8": dt.int8, "U16": dt.uint16, "I16": dt.int16, "U32": dt.uint32,
    "I32": dt.int32, "U64": dt.uint64, "I64": dt.int64, "F16": dt.float16, "BF16": dt.bfloat16, "F32": dt.float32,
    "F64": dt.float64, "F8_E4M3": dt.float8_e4m3fn, "F8_E5M2": dt.float8_e5m2, "C64": dt.complex64,
}  # fmt: skip
BY_DTYPE = {d: name for name, d in NAMES.items()}
MAX_HEADER = 100_000_000  # bytes, the format's own limit


def save_safetensors(
    path: str | os.PathLike[str], arrays: Mapping[str, Any], metadata: Mapping[str, str] | None = None
) -> None:
    """Write named arrays (concrete ones, NumPy's, numbers) to a file.

    metadata   strings to keep beside them

    Raises DtypeError for complex128, which the format has not.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
    >>> save_safetensors(path, {"w": fnp.ones((2, 3))}, metadata={"step": "7"})
    >>> load_safetensors(path)["w"].shape, safetensors_metadata(path)
    ((2, 3), {'step': '7'})
    """
    if not isinstance(arrays, Mapping):
        raise note_user_line(
            ArgumentError(f"save_safetensors takes a path, then a dictionary of arrays, got {describe(arrays)}")
        )
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    parts: list[Any] = []
    at = 0
    data = {name: (lift(x).aval.dtype, x) for name, x in arrays.items()}
    for name in sorted(data, key=lambda n: (-data[n][0].itemsize, n)):  # wide ones first: every array stays aligned
        dtype, x = data[name]
        if dtype not in BY_DTYPE:
            raise note_user_line(DtypeError(f"save_safetensors: {name!r} is {dtype}, which the format has not"))
        host = np.asarray(x.concrete() if isinstance(x, Array) else x).astype(dtype.np, order="C", copy=False)
        header[name] = {
            "dtype": BY_DTYPE[dtype],
            "shape": list(host.shape),
            "data_offsets": [at, at + host.nbytes],
        }
        at += host.nbytes
        parts.append(host)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for host in parts:
            file.write(host.tobytes())


def read_header(path: str | os.PathLike[str]) -> tuple[dict[str, Any], int]:
    """-> (header of a safetensors file, where its elements begin). Raises ArgumentError for any other file."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(MAX_HEADER, size - 8):
            raise ArgumentError(f"{os.fspath(path)!r} is no safetensors file: its header is longer than the file")
        try:
            header = json.loads(file.read(length))
        except ValueError as e:
            raise ArgumentError(f"{os.fspath(path)!r} is no safetensors file: {e}") from e
    if not isinstance(header, dict):
        raise ArgumentError(f"{os.fspath(path)!r} is no safetensors file: its header is not an object")
    return header, 8 + length


def load_safetensors(path: str | os.PathLike[str], *, device: Any = None) -> dict[str, DeviceArray]:
    """The arrays of a file, by name.

    Raises ArgumentError where the file breaks the format, DtypeError for elements that fgrad has not.

    device   where the arrays shall lie: a name or a device; None: on the default one

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
    >>> save_safetensors(path, {"b": fnp.zeros(2)})
    >>> load_safetensors(path)
    {'b': Array([0., 0.], dtype=float32)}
    """
    header, start = read_header(path)
    header.pop("__metadata__", None)
    data = np.memmap(path, np.uint8, "r") if os.path.getsize(path) else np.zeros(0, np.uint8)
    out = {}
    for name, entry in header.items():
        dtype = NAMES.get(entry["dtype"])
        if dtype is None:
            raise DtypeError(f"load_safetensors: {name!r} is {entry['dtype']}, which is no dtype of fgrad")
        begin, end = entry["data_offsets"]
        shape = tuple(entry["shape"])
        part = data[start + begin : start + end]
        if part.nbytes != dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
            raise ArgumentError(
                f"load_safetensors: {name!r} has {part.nbytes} bytes, not those of {dtype}{list(shape)}"
            )
        out[name] = from_host(np.frombuffer(part.tobytes(), dtype.np).reshape(shape), dtype, device=device)
    return out


def safetensors_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The strings kept beside the arrays of a file.

    Raises ArgumentError where the file breaks the format.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
    >>> save_safetensors(path, {"b": 0.5}, metadata={"step": "7"})
    >>> safetensors_metadata(path)
    {'step': '7'}
    """
    metadata: dict[str, str] = read_header(path)[0].get("__metadata__", {})
    return metadata

trim_public(globals(), __all__)
