"""Arrays in files, larger than memory if need be: opened at once, read and written by pieces.

`open_array` reads nothing but the file's header. Basic indexing gives a part, which is not read either; a part is read
when it is used: as an argument of any function of fgrad, by `read`, or by NumPy.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, DtypeError, OutOfBoundsError, OutOfMemoryError, ShapeError, note_user_line
from fgrad.hw.device import get_device
from fgrad.hw.libc import ffi
from fgrad.hw.transfer import copy
from fgrad.interop import NAMES, read_header
from fgrad.run.array import DeviceArray, empty, from_host
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trim_public
from fgrad.trace.tracer import lift
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType

__all__ = ["StoredArray", "create_array", "open_array", "save"]

PIECE_BYTES = 1 << 26
WASTE = 4  # a strided part is read with what lies between, up to so many times its own bytes


def open_array(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    dtype: Any = None,
    shape: tuple[int, ...] | None = None,
    offset: int = 0,
    mode: str = "r",
) -> StoredArray:
    """The array in a file; only the header is read.

    path    a .npy file, a .safetensors file (name which array), or any other: raw elements, row-major, little-endian
    dtype   of raw elements; of a .npy file it replaces one of the same width that NumPy does not know (bfloat16)
    shape   of raw elements; None takes the rest of the file as one axis
    offset  bytes before raw elements
    mode    "r", or "r+" to write as well

    Raises ArgumentError where the file is shorter than it says, or not of its kind.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "x.bin")
    >>> np.arange(6, dtype=np.int16).tofile(path)
    >>> fgrad.storage.open_array(path, dtype="int16", shape=(2, 2), offset=4)[...].read()
    Array([[2, 3],
           [4, 5]], dtype=int16)
    """
    where = os.fspath(path)
    if mode not in ("r", "r+"):
        raise note_user_line(ArgumentError(f"open_array: mode must be 'r' or 'r+', got {mode!r}"))
    given = None if dtype is None else dt.to_dtype(dtype)
    if where.endswith(".safetensors"):
        found = _of_safetensors(where, name)
    elif where.endswith(".npy"):
        found = _of_npy(where, given)
    elif given is None:
        raise note_user_line(ArgumentError(f"open_array: {where!r} has no header; give dtype, and shape if it has one"))
    else:
        rest = (os.path.getsize(where) - offset) // given.itemsize
        found = given, (max(rest, 0),) if shape is None else tuple(shape), offset
    element, sizes, start = found
    wanted = start + element.itemsize * _count(sizes)
    size = os.path.getsize(where)
    if wanted > size:
        raise note_user_line(
            ArgumentError(
                f"open_array: {where!r} has {size} bytes, and {element}{list(sizes)} ends at byte {wanted}: "
                "it was cut, or is of another shape"
            )
        )
    return StoredArray(_Handle(where, mode == "r+"), element, sizes, _strides(sizes, element.itemsize), start)


def create_array(path: str | os.PathLike[str], shape: tuple[int, ...], dtype: Any) -> StoredArray:
    """A new .npy file full of zeros, to be written by pieces, in the place of an older one.

    Nothing is written yet where the system keeps files with holes.

    Raises ArgumentError for a file name without .npy at its end.

    >>> import os, tempfile
    >>> x = fgrad.storage.create_array(os.path.join(tempfile.mkdtemp(), "x.npy"), (2, 3), "float32")
    >>> x[0] = fnp.arange(3.0)
    >>> np.load(x.path)
    array([[0., 1., 2.],
           [0., 0., 0.]], dtype=float32)
    """
    where = os.fspath(path)
    if not where.endswith(".npy"):
        raise note_user_line(ArgumentError(f"create_array makes .npy files, and {where!r} does not end with that"))
    element = dt.to_dtype(dtype)
    if os.path.isfile(where):
        os.unlink(where)  # arrays that are open keep the old file
    with open(where, "wb") as file:
        descr = np.lib.format.dtype_to_descr(element.np)
        header = {"descr": descr, "fortran_order": False, "shape": tuple(shape)}
        np.lib.format.write_array_header_2_0(file, header)
        start = file.tell()
        file.truncate(start + element.itemsize * _count(shape))
    return StoredArray(_Handle(where, True), element, tuple(shape), _strides(shape, element.itemsize), start)


def save(path: str | os.PathLike[str], x: Any) -> None:
    """Write an array (concrete, NumPy's, a number, or a part of another file) to a .npy file.

    Raises ArgumentError for a file name without .npy at its end.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> fgrad.storage.save(path, fnp.ones(2))
    >>> np.load(path)
    array([1., 1.], dtype=float32)
    """
    if isinstance(x, StoredArray) and x.shape:
        out = create_array(path, x.shape, x.dtype)
        for where, piece in x.pieces():
            out[where] = piece
        out.close()
        return
    aval = lift(x).aval
    out = create_array(path, aval.shape, aval.dtype)
    out[...] = x
    out.close()


class _Handle:
    """A file of the DISK device, closed when the last array of it is gone."""

    def __init__(self, path: str, writable: bool) -> None:
        self.device = get_device("disk")
        self.file = self.device.open(path, writable=writable)
        self.close = weakref.finalize(self, self.device.close, self.file)


class StoredArray:
    """An array, or a part of one, in a file. Made by `open_array` and `create_array`.

    Operators read it: ``x[3:5] * 2`` is an array in memory. Methods of arrays are those of ``x[3:5].read()``.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> np.save(path, np.arange(6.0).reshape(2, 3))
    >>> x = fgrad.storage.open_array(path)
    >>> x.shape, x.dtype, x[1, :2].read()
    ((2, 3), dtype('float64'), Array([3., 4.], dtype=float64))
    >>> fnp.sum(x)
    Array(15., dtype=float64)
    """

    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]  # == compares elements

    def __init__(
        self, handle: _Handle, element: DType, shape: tuple[int, ...], strides: tuple[int, ...], start: int
    ) -> None:
        self._handle = handle
        self._element = element
        self._strides = strides
        self._start = start
        self.shape = tuple(shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        dtype: np.dtype[Any] = self._element.np
        return dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return _count(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.size * self._element.itemsize

    @property
    def path(self) -> str:
        """The file."""
        return self._handle.file.path

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __getitem__(self, index: Any) -> StoredArray:
        """A part, by integers, slices, ... and None; it is not read yet.

        Raises ArgumentError for indices that are arrays: read a part first, or use `pieces`.
        """
        shape, strides, start = _part(self.shape, self._strides, self._start, index)
        return StoredArray(self._handle, self._element, shape, strides, start)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write a part; `value` is broadcast to it, and converted to its dtype."""
        part = self[index]
        source = value.concrete() if isinstance(value, Array) else np.asarray(value)
        try:
            host = np.broadcast_to(source, part.shape)
        except ValueError:
            raise note_user_line(
                ShapeError(f"a value of shape {source.shape} does not fit the part of shape {part.shape}")
            ) from None
        part._move(np.ascontiguousarray(host, self.dtype).reshape(part.shape), is_write=True)

    def read(self, device: Any = None) -> DeviceArray:
        """The elements as an array on `device` (its name, or None for the default one).

        Raises DeviceError where the file has become shorter meanwhile, and OutOfMemoryError where there is no room
        for them.
        """
        target = get_device(device) if device is None or isinstance(device, str) else device
        self._handle.file.check(self._start, 0)
        if self._is_row_major():
            try:
                out = empty(self._element, self.shape, device=target)
            except OutOfMemoryError as error:
                error.add_note(f"{self!r} has {self.nbytes} bytes: use parts of it (x[:1000]), one by one (x.pieces())")
                raise
            handle = self._handle
            copy(target, out.addr, handle.device, handle.file.base + self._start, self.nbytes)
            return out
        return from_host(np.asarray(self), self._element, device=target)

    def __fgrad_array__(self) -> DeviceArray:
        return self.read()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("the elements are in a file; NumPy can only have a copy of them")
        out = np.empty(self.shape, self.dtype)
        self._move(out, is_write=False)
        return out if dtype is None else out.astype(dtype, copy=False)

    def pieces(self, max_bytes: int = PIECE_BYTES, device: Any = None) -> Iterator[tuple[slice, DeviceArray]]:
        """(slice of the first axis, those rows) after another, each of at most `max_bytes` or one row."""
        if not self.shape:
            raise note_user_line(ShapeError("an array without axes has no pieces; use read()"))
        rows = max(1, max_bytes // max(1, self.nbytes // max(1, self.shape[0])))
        for first in range(0, self.shape[0], rows):
            where = slice(first, min(first + rows, self.shape[0]))
            yield where, self[where].read(device)

    def flush(self) -> None:
        """Wait until everything written is on the disk."""
        self._handle.file.flush()

    def close(self) -> None:
        """Close the file for this array and all its parts; happens by itself when they are gone."""
        self._handle.close()

    def __repr__(self) -> str:
        return f"StoredArray({self._element}{list(self.shape)} in {self.path!r})"

    def _is_row_major(self) -> bool:
        return _strides(self.shape, self._element.itemsize) == self._strides or not self.size

    def _move(self, host: Any, is_write: bool) -> None:
        """Read into, or write from, a row-major NumPy array of this shape."""
        file, item = self._handle.file, self._element.itemsize
        if not self.size:
            return
        if self._is_row_major():
            address = host.__array_interface__["data"][0]
            (file.write if is_write else file.read)(self._start, address, self.nbytes)
            return
        low, high = _bounds(self.shape, self._strides, self._start, item)
        if not is_write and high - low <= max(WASTE * self.nbytes, 1 << 16):
            between = ffi.new("char[]", high - low)
            file.read(low, int(ffi.cast("intptr_t", between)), high - low)
            flat = np.frombuffer(ffi.buffer(between), np.uint8)
            host[...] = np.ndarray(self.shape, self.dtype, flat, self._start - low, self._strides)
            return
        for i in range(self.shape[0]):
            self[i]._move(host[i, ...], is_write)


def _operator(name: str) -> Any:
    def operator(self: StoredArray, *other: Any) -> Any:
        return getattr(self.read(), name)(*other)

    return operator


_TWO = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod".split()
_OTHERS = "eq ne lt le gt ge neg pos abs invert".split()
for _name in [*_TWO, *[f"r{_name}" for _name in _TWO], *_OTHERS]:
    setattr(StoredArray, f"__{_name}__", _operator(f"__{_name}__"))


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count


def _strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Of a row-major array."""
    strides = []
    for n in reversed(shape):
        strides.append(itemsize)
        itemsize *= n
    return tuple(reversed(strides))


def _bounds(shape: tuple[int, ...], strides: tuple[int, ...], start: int, item: int) -> tuple[int, int]:
    reach = [s * (n - 1) for s, n in zip(strides, shape, strict=True)]
    return start + sum(r for r in reach if r < 0), start + sum(r for r in reach if r > 0) + item


def _part(
    shape: tuple[int, ...], strides: tuple[int, ...], start: int, index: Any
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """-> (shape, strides, first byte) of what a basic index selects."""
    items = list(index) if isinstance(index, tuple) else [index]
    for item in items:
        is_number = isinstance(item, int | np.integer) and not isinstance(item, bool)
        if not (is_number or item is None or item is Ellipsis or isinstance(item, slice)):
            raise note_user_line(
                ArgumentError(
                    f"a part of a file is chosen by integers, slices, ... and None, not by {type(item).__name__}; "
                    "read a part first, and index that"
                )
            )
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > len(shape):
        raise note_user_line(OutOfBoundsError(f"{used} indices for an array of {len(shape)} axes"))
    if Ellipsis not in items:
        items.append(Ellipsis)
    at = items.index(Ellipsis)
    items[at : at + 1] = [slice(None)] * (len(shape) - used)
    out_shape, out_strides, axis = [], [], 0
    for item in items:
        if item is None:
            out_shape.append(1)
            out_strides.append(0)
            continue
        size, stride = shape[axis], strides[axis]
        axis += 1
        if isinstance(item, slice):
            first, stop, step = item.indices(size)
            count = len(range(first, stop, step))
            start += first * stride if count else 0
            out_shape.append(count)
            out_strides.append(stride * step)
            continue
        if not -size <= item < size:
            raise note_user_line(OutOfBoundsError(f"index {item} is outside axis {axis - 1} of size {size}"))
        start += (int(item) % size) * stride
    return tuple(out_shape), tuple(out_strides), start


def _of_npy(path: str, given: DType | None) -> tuple[DType, tuple[int, ...], int]:
    with open(path, "rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, found = read(file)
        except ValueError as e:
            raise note_user_line(ArgumentError(f"open_array: {path!r} is no .npy file: {e}")) from e
        start = file.tell()
    if fortran and len(shape) > 1:
        raise note_user_line(ArgumentError(f"open_array: {path!r} is column-major; save its transpose"))
    if given is not None and given.itemsize == found.itemsize and found.kind == "V":
        return given, shape, start
    if found.hasobject or found.names or not found.isnative and found.itemsize > 1 or found.kind == "V":
        raise note_user_line(DtypeError(f"open_array: {path!r} holds {found}, which is no dtype of fgrad; give dtype"))
    return dt.to_dtype(found), shape, start


def _of_safetensors(path: str, name: str | None) -> tuple[DType, tuple[int, ...], int]:
    header, start = read_header(path)
    header.pop("__metadata__", None)
    if name not in header:
        known = ", ".join(sorted(header))
        raise note_user_line(ArgumentError(f"open_array: name one of the arrays in {path!r}: {known}; got {name!r}"))
    entry = header[name]
    if entry["dtype"] not in NAMES:
        raise note_user_line(DtypeError(f"open_array: {name!r} is {entry['dtype']}, which is no dtype of fgrad"))
    dtype, shape = NAMES[entry["dtype"]], tuple(entry["shape"])
    begin, end = entry["data_offsets"]
    if end - begin != dtype.itemsize * _count(shape):
        raise note_user_line(ArgumentError(f"open_array: {name!r} has {end - begin} bytes, not those of its shape"))
    return dtype, shape, start + begin

trim_public(globals(), __all__)
