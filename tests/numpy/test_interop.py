"""Arrays beside those of other libraries: NumPy, DLPack, buffers, pickles, files."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import interop
from fgrad.errors import AxisError, DtypeError
from fgrad.run.dlpack import from_dlpack


def aligned(n: int, dtype: Any = np.float32) -> Any:
    """0, 1, .. in memory that starts at a multiple of 64."""
    raw = np.zeros(n * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    out = raw[start : start + n * np.dtype(dtype).itemsize].view(dtype)
    out[:] = np.arange(n)
    return out


def test_numpy_on_either_side() -> None:
    x = fnp.arange(3.0)
    assert type(np.ones(3) + x) is type(x) and (np.ones(3) + x).dtype == np.float64
    assert type(np.float32(2) * x) is type(x)
    assert isinstance(np.sin(x), np.ndarray) and np.add(x, 1).tolist() == [1, 2, 3]
    assert np.concatenate([x, np.ones(1)]).shape == (4,)


def test_any_layout_comes_in() -> None:
    for a in (
        np.arange(5, dtype=">f4"),
        np.arange(12.0).reshape(3, 4)[:, ::-2],
        np.frombuffer(b"\0" + np.arange(4.0).tobytes(), np.uint8)[1:].view("<f8"),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
    ):
        assert np.array_equal(np.asarray(fnp.asarray(a)), a)
        assert np.array_equal(np.asarray(fgrad.jit(lambda x: x + x)(a)), a + a)


def test_a_later_write_to_the_source_is_not_seen() -> None:
    a = np.zeros(3)
    x = fnp.asarray(a)
    a[:] = 1
    assert x.tolist() == [0, 0, 0]


def test_views_are_read_only() -> None:
    assert not np.asarray(fnp.ones(2)).flags.writeable
    assert not np.from_dlpack(fnp.ones(2)).flags.writeable
    assert fnp.ones(2).__buffer__(0).readonly


@pytest.mark.parametrize("look", [np.asarray, np.from_dlpack, fgrad.device_get], ids=["array", "dlpack", "device_get"])
def test_a_donated_array_leaves_its_views_alone(look: Any) -> None:
    x = fnp.arange(8.0) + 1
    seen = look(x)
    wanted = seen.copy()
    scale = fgrad.jit(lambda a: a * 100, donate_argnums=0)
    for _ in range(2):
        scale(fnp.arange(8.0) + 1)
    scale(x).block_until_ready()
    assert x.is_deleted() and np.array_equal(seen, wanted)


def test_the_address_of_an_array_is_that_of_its_elements() -> None:
    x = fnp.arange(4) * 3
    assert x.copy_to_host_async() is None
    assert x.unsafe_buffer_pointer() == np.asarray(x).ctypes.data
    assert x.unsafe_buffer_pointer() != fnp.copy(x).unsafe_buffer_pointer()


def test_dlpack_shares_aligned_memory_and_copies_the_rest() -> None:
    a = aligned(6)
    x = from_dlpack(a)
    assert x.addr == a.ctypes.data and x.tolist() == [0, 1, 2, 3, 4, 5]
    assert from_dlpack(a, copy=True).addr != a.ctypes.data
    with pytest.raises(BufferError, match="row-major and 64-byte aligned"):
        from_dlpack(a[::2], copy=False)
    assert fnp.from_dlpack(a[::2]).tolist() == [0, 2, 4]


def test_shared_memory_is_held_and_never_reused() -> None:
    x = from_dlpack(aligned(64))
    total = fgrad.jit(lambda a: a + 1, donate_argnums=0)(x).sum()
    assert float(total) == 64 * 63 / 2 + 64 and x.is_deleted()
    y = from_dlpack(aligned(64))
    late = y * 2
    del y
    from_dlpack(aligned(64))
    assert float(late[63]) == 126


@pytest.mark.parametrize("name", ["bool", "int8", "uint64", "float16", "bfloat16", "float32", "complex128"])
def test_dlpack_there_and_back(name: str) -> None:
    x = fnp.asarray(np.arange(64) % 2).astype(getattr(fnp, name))

    class Other:
        """A library that passes the capsule on."""

        def __dlpack__(self, **options: Any) -> Any:
            return x.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return x.__dlpack_device__()

    y = fnp.from_dlpack(Other())
    assert y.dtype == x.dtype and bool((y == x).all())


def test_capsules_of_every_version() -> None:
    x = fnp.ones(3)
    for options in (
        {},
        {"copy": True},
        {"copy": False},
        {"max_version": (0, 8)},
        {"max_version": (1, 0), "copy": False},
    ):
        assert "dltensor" in repr(x.__dlpack__(**options))
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="host memory"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError):
        fgrad.jit(lambda a: a.__dlpack__())(x)


def test_pickles_and_copies_keep_dtype_and_weakness() -> None:
    for x in (fnp.arange(3, dtype=fnp.bfloat16), fnp.asarray(1.5), fnp.zeros((0, 2))):
        for y in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy([x])[0]):
            assert y is not x and (y.dtype, y.shape, y.weak_type) == (x.dtype, x.shape, x.weak_type)
            assert y.tolist() == x.tolist()


def test_the_class_of_arrays_is_pickled_by_its_place() -> None:
    kind = type(fnp.ones(3))
    assert pickle.loads(pickle.dumps(kind)) is kind and kind.__name__ == "Array"


def test_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    arrays = {
        "w": fnp.arange(6.0).reshape(2, 3), "b": fnp.arange(3, dtype=fnp.bfloat16), "n": np.int8(-3),
        "mask": np.array([True, False]), "none": fnp.zeros((0, 4)), "wide": np.arange(2, dtype=">i8"),
    }  # fmt: skip
    interop.save_safetensors(path, arrays, {"made by": "fgrad"})
    got = interop.load_safetensors(path)
    assert interop.safetensors_metadata(path) == {"made by": "fgrad"} and set(got) == set(arrays)
    for name, x in arrays.items():
        assert got[name].shape == np.shape(x) and got[name].tolist() == x.tolist()
    assert got["b"].dtype == fnp.bfloat16
    with pytest.raises(DtypeError, match="'z' is complex128"):
        interop.save_safetensors(path, {"z": np.ones(1, np.complex128)})


@pytest.mark.parametrize("text", [b"", b"\xff" * 16, b"\x02" + b"\0" * 7 + b"[]"])
def test_a_file_that_is_no_safetensors_file_says_so(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken"
    path.write_bytes(text)
    with pytest.raises(TypeError, match="no safetensors file"):
        interop.load_safetensors(path)


def test_the_namespace_protocol() -> None:
    x = fnp.arange(3)
    assert x.__array_namespace__() is fnp
    assert x.device in fnp.__array_namespace_info__().devices()
    assert x.to_device(x.device) is x
    assert 2 in x and 5 not in x and [int(i) for i in x] == [0, 1, 2]
    with pytest.raises(TypeError, match=r"x = x.at\[idx\].set\(value\)"):
        x[0] = 1
    with pytest.raises(AxisError):
        fnp.sum(x, axis=1)
    assert issubclass(AxisError, IndexError) and issubclass(AxisError, ValueError)
