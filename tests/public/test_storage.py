"""Arrays in files: parts are read when used, results are written, and a cut file is an error."""

import contextlib
import gc
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrad as fg
from fgrad import numpy as fnp
from fgrad.errors import ArgumentError, DeviceError, DtypeError, OutOfBoundsError, OutOfMemoryError, ShapeError
from fgrad.hw import pool
from fgrad.hw.device import get_device
from fgrad.hw.transfer import _copy_by_pieces, copy
from fgrad.interop import save_safetensors
from fgrad.storage import create_array, open_array, save


@pytest.fixture
def data(rng: np.random.Generator) -> Any:
    return rng.standard_normal((37, 5, 6)).astype(np.float32)


@pytest.fixture(params=["npy", "raw", "safetensors"])
def stored(request: Any, tmp_path: Path, data: Any) -> Any:
    path = tmp_path / f"x.{request.param}"
    if request.param == "npy":
        np.save(path, data)
        return open_array(path)
    if request.param == "raw":
        path.write_bytes(b"head...." + data.tobytes())
        return open_array(path, dtype="float32", shape=data.shape, offset=8)
    save_safetensors(path, {"other": np.ones(3), "x": data})
    return open_array(path, "x")


def random_index(r: random.Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    index: list[Any] = []
    for n in shape[: r.randrange(len(shape) + 1)]:
        kind = r.randrange(3)
        if kind == 0:
            index.append(r.randrange(-n, n))
        else:
            step = r.choice((1, 2, 3, -1, -2))
            index.append(slice(r.choice((None, r.randrange(-n, n))), r.choice((None, r.randrange(-n, n))), step))
    for extra in (None, Ellipsis):
        if r.random() < 0.3:
            index.insert(r.randrange(len(index) + 1), extra)
    return tuple(index)


def test_parts_are_those_of_numpy(stored: Any, data: Any) -> None:
    r = random.Random(3)
    assert (stored.shape, stored.dtype, stored.nbytes, len(stored)) == (data.shape, data.dtype, data.nbytes, 37)
    np.testing.assert_array_equal(np.asarray(stored), data)
    for _ in range(60):
        index = random_index(r, data.shape)
        part, want = stored[index], data[index]
        assert part.shape == want.shape
        np.testing.assert_array_equal(np.asarray(part), want)
        np.testing.assert_array_equal(np.asarray(part.read()), want)
        if want.ndim and want.shape[0]:
            np.testing.assert_array_equal(np.asarray(part[-1]), want[-1])


def test_jitted_functions_take_parts_as_arguments(stored: Any, data: Any) -> None:
    f = fg.jit(lambda x, y: fnp.sum(x * y, axis=0))
    got = f(stored[3:9], stored[0])
    np.testing.assert_allclose(np.asarray(got), (data[3:9] * data[0]).sum(0), rtol=1e-5)


def test_operators_read_a_part(stored: Any, data: Any) -> None:
    a, b = stored[3:9], data[3:9]
    pairs = [
        (a + 1, b + 1), (2 - a, 2 - b), (a * a, b * b), (a / stored[0], b / data[0]), (-a, -b), (abs(a), abs(b)),
        (a**2, b**2), (a > 0, b > 0), (a == a, b == b), (stored[0] @ stored[1].read().T, data[0] @ data[1].T),
        (np.ones(6, np.float32) + a, 1 + b), (fnp.ones(6) * a, b),
    ]  # fmt: skip
    for got, want in pairs:
        assert isinstance(got, fg.Array) and got.dtype == want.dtype
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5)
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)


def test_a_whole_that_does_not_fit_names_the_ways_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = create_array(tmp_path / "x.npy", (1 << 20, 1 << 16), "int8")
    real = pool._map_or_none
    monkeypatch.setattr(pool, "_map_or_none", lambda nbytes: real(nbytes) if nbytes < 1 << 34 else None)
    for use in (x.read, lambda: fg.jit(fnp.sum)(x), lambda: x + 1):
        with pytest.raises(OutOfMemoryError, match="the system has no") as caught:
            use()
        assert "one by one (x.pieces())" in caught.value.__notes__[0]
    assert np.asarray(x[5, :10] + 1).tolist() == [1] * 10


def test_a_sum_over_pieces_is_that_of_the_whole(stored: Any, data: Any) -> None:
    total = fnp.zeros(data.shape[1:])
    where = []
    for rows, piece in stored.pieces(max_bytes=1000):
        total = total + fnp.sum(piece, axis=0)
        where.append(rows)
    assert where[0] == slice(0, 8) and where[-1].stop == 37
    np.testing.assert_allclose(np.asarray(total), data.sum(0), rtol=1e-4)


def test_results_are_written_by_pieces(stored: Any, data: Any, tmp_path: Path) -> None:
    out = create_array(tmp_path / "y.npy", data.shape, np.float32)
    step = fg.jit(lambda x: x * 2 + 1)
    for rows, piece in stored.pieces(max_bytes=500):
        out[rows] = step(piece)
    out[3, ::2, 1] = 7.0
    out.flush()
    want = data * 2 + 1
    want[3, ::2, 1] = 7.0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), want)
    np.testing.assert_array_equal(np.asarray(out[3]), want[3])


def test_save_writes_what_numpy_reads(tmp_path: Path, stored: Any, data: Any) -> None:
    for x, want in [(stored[::3], data[::3]), (fnp.arange(4), np.arange(4)), (2.5, np.float32(2.5)), (data, data)]:
        save(tmp_path / "z.npy", x)
        np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), want)
    with pytest.raises(ArgumentError, match="does not end with that"):
        save(tmp_path / "z.bin", data)


def test_a_file_may_be_replaced_while_it_is_read(tmp_path: Path, data: Any) -> None:
    path = tmp_path / "x.npy"
    np.save(path, data[:2])
    x = open_array(path)
    save(path, data)
    np.testing.assert_array_equal(np.asarray(x), data[:2])
    save(path, open_array(path)[::-1])
    np.testing.assert_array_equal(np.load(path), data[::-1])
    save(path, open_array(path)[0, 0, 0])
    assert np.load(path) == data[-1, 0, 0]


def test_bfloat16_goes_through_files(tmp_path: Path) -> None:
    x = fnp.arange(6, dtype=fnp.bfloat16).reshape(2, 3)
    save(tmp_path / "b.npy", x)
    with pytest.raises(DtypeError, match="give dtype"):
        open_array(tmp_path / "b.npy")
    back = open_array(tmp_path / "b.npy", dtype=fnp.bfloat16)
    assert back.read().aval == x.aval
    np.testing.assert_array_equal(np.asarray(back, np.float32), np.arange(6.0).reshape(2, 3))


def test_a_file_that_is_cut_is_an_error_at_opening_and_at_reading(tmp_path: Path, data: Any) -> None:
    path = tmp_path / "x.npy"
    np.save(path, data)
    x = open_array(path)
    size = os.path.getsize(path)
    os.truncate(path, size // 2)
    np.testing.assert_array_equal(np.asarray(x[0]), data[0])
    for read in (lambda: x.read(), lambda: np.asarray(x), lambda: fnp.sum(x[36]), lambda: np.asarray(x[:, 0])):
        with pytest.raises(DeviceError, match=f"the file was cut to {size // 2} bytes after it was opened"):
            read()
    with pytest.raises(ArgumentError, match="it was cut, or is of another shape"):
        open_array(path)


def test_a_full_disk_names_the_file_and_keeps_what_was_written(tmp_path: Path) -> None:
    """The system takes a part of the bytes, then none."""
    source = f"""
import resource
import numpy as np
import fgrad.numpy as fnp
from fgrad.storage import create_array
out = create_array({str(tmp_path / "y.npy")!r}, (1000, 100), "float32")
out[:2] = fnp.ones((2, 100))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
out[2:4] = 2 * fnp.ones((2, 100))
try:
    out[:] = fnp.zeros((1000, 100)) + 5
except OSError as error:
    print(error.strerror, error.filename)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
out[999] = 7.0
print(*[float(np.asarray(out[i, 0])) for i in (0, 3, 999)])
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, env=environment)
    assert done.stdout == f"File too large {tmp_path / 'y.npy'}\n5.0 5.0 7.0\n", done.stderr


def test_what_cannot_be_read_is_said(tmp_path: Path, stored: Any, data: Any) -> None:
    with pytest.raises(ArgumentError, match="not by list; read a part first"):
        stored[[1, 2]]
    with pytest.raises(OutOfBoundsError, match="index 37 is outside axis 0 of size 37"):
        stored[37]
    with pytest.raises(OutOfBoundsError, match="4 indices for an array of 3 axes"):
        stored[0, 0, 0, 0]
    with pytest.raises(DeviceError, match="opened for reading; open it with mode 'r\\+'"):
        stored[0] = 1.0
    with pytest.raises(ArgumentError, match="mode must be"):
        open_array(stored.path, mode="w")
    (tmp_path / "bad.npy").write_bytes(b"not numpy at all")
    with pytest.raises(ArgumentError, match=r"is no \.npy file"):
        open_array(tmp_path / "bad.npy")
    np.save(tmp_path / "f.npy", np.asfortranarray(data))
    with pytest.raises(ArgumentError, match="column-major; save its transpose"):
        open_array(tmp_path / "f.npy")
    np.save(tmp_path / "o.npy", np.zeros(2, [("a", "f4")]))
    with pytest.raises(DtypeError, match="no dtype of fgrad"):
        open_array(tmp_path / "o.npy")
    with pytest.raises(ArgumentError, match="has no header; give dtype"):
        open_array(tmp_path / "x.bin")
    out = create_array(tmp_path / "y.npy", (2, 3), np.int32)
    with pytest.raises(ShapeError, match=r"\(4,\) does not fit the part of shape \(3,\)"):
        out[0] = np.zeros(4)


def test_a_safetensors_file_names_its_arrays(tmp_path: Path) -> None:
    save_safetensors(tmp_path / "m.safetensors", {"w": np.ones(2), "b": np.zeros(1)})
    with pytest.raises(ArgumentError, match="b, w; got None"):
        open_array(tmp_path / "m.safetensors")


def times_open(path: Path) -> int:
    """How many descriptors of this process are of this file; others may come and go meanwhile."""
    found = 0
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself
            found += os.path.samestat(os.fstat(int(name)), path.stat())
    return found


def test_files_are_closed_with_their_last_array(tmp_path: Path, data: Any) -> None:
    np.save(tmp_path / "x.npy", data)
    x, again = open_array(tmp_path / "x.npy"), open_array(tmp_path / "x.npy")
    assert times_open(tmp_path / "x.npy") == 1, "one file, opened once"
    part = x[2:4]
    del x, again
    gc.collect()
    np.testing.assert_array_equal(np.asarray(part), data[2:4])
    del part
    gc.collect()
    assert times_open(tmp_path / "x.npy") == 0
    y = open_array(tmp_path / "x.npy")
    y.close()
    with pytest.raises(DeviceError, match="was closed; open it again"):
        y.read()


def test_a_larger_file_is_not_opened_at_the_addresses_of_a_smaller_one(tmp_path: Path) -> None:
    path = tmp_path / "x.raw"
    path.write_bytes(bytes(64))
    disk = get_device("disk")
    file = disk.open(str(path))
    assert disk.open(str(path)) is file
    path.write_bytes(bytes(128))
    with pytest.raises(DeviceError, match="open with 64 bytes, and longer now"):
        disk.open(str(path))
    disk.close(file)
    disk.close(file)
    again = disk.open(str(path))
    assert again.nbytes == 128
    disk.close(again)


@pytest.mark.parametrize("slot", [1, 4096, 1 << 20])
@pytest.mark.parametrize("nbytes", [0, 1, 4095, 4096, 4097, (1 << 16) + 7])
def test_copies_between_storing_devices_go_by_pieces(tmp_path: Path, slot: int, nbytes: int) -> None:
    if slot == 1 and nbytes > 4097:
        nbytes = 300
    disk, npy = get_device("disk"), get_device("npy")
    source = np.frombuffer(random.Random(1).randbytes(nbytes + 3), np.uint8).copy()
    file = disk.open(str(tmp_path / "y.bin"), writable=True, nbytes=nbytes + 8)
    _copy_by_pieces(disk, file.base + 5, npy, npy.address(source) + 3, nbytes, slot)
    assert (tmp_path / "y.bin").read_bytes()[5 : 5 + nbytes] == source[3:].tobytes()
    back = np.zeros_like(source)
    _copy_by_pieces(npy, npy.address(back) + 1, disk, file.base + 5, nbytes, slot)
    assert back[1 : 1 + nbytes].tobytes() == source[3:].tobytes()
    disk.close(file)


def test_storing_devices_run_nothing_and_check_every_access(data: Any) -> None:
    npy, cpu = get_device("npy"), get_device("cpu")
    x = data[:4].copy()
    on_cpu = fnp.zeros_like(x)
    copy(cpu, on_cpu.addr, npy, npy.address(x), x.nbytes)
    np.testing.assert_array_equal(np.asarray(on_cpu), x)
    for name in ("npy", "disk"):
        with pytest.raises(DeviceError, match=f"arrays are not made on {name}"):
            fg.device_put(1.0, name)
        with pytest.raises(DeviceError, match=f"{name} runs no programs, so not f"):
            get_device(name).compile(None, frozenset(), frozenset(), "f")
    with pytest.raises(ArgumentError, match="not row-major; use numpy.ascontiguousarray"):
        npy.address(x.T)
    with pytest.raises(DeviceError, match="knows no array with the 8 bytes"):
        npy.fetch(npy.address(x) + x.nbytes - 4, on_cpu.addr, 8)
    x.flags.writeable = False
    with pytest.raises(DeviceError, match="read-only"):
        npy.deliver(npy.address(x), on_cpu.addr, 4)
    with pytest.raises(DeviceError, match="no open file at address 0x5"):
        get_device("disk").fetch(5, on_cpu.addr, 4)


@pytest.mark.parametrize("kind", ["npy", "raw", "safetensors"])
def test_files_larger_than_memory_are_computed_with_and_written(kind: str, tmp_path: Path) -> None:
    """64 GiB with holes, of which a few rows are there."""
    rows, width = 1 << 24, 1 << 10
    path = tmp_path / f"large.{kind}"
    if kind == "npy":
        x = create_array(path, (rows, width), "float32")
    elif kind == "raw":
        path.touch()
        os.truncate(path, 4 * rows * width)
        x = open_array(path, dtype="float32", shape=(rows, width), mode="r+")
    else:
        entry = {"dtype": "F32", "shape": [rows, width], "data_offsets": [0, 4 * rows * width]}
        header = json.dumps({"x": entry}).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header)
        os.truncate(path, 8 + len(header) + 4 * rows * width)
        x = open_array(path, "x", mode="r+")
    assert x.nbytes == 1 << 36
    places = [0, rows // 3, rows - 2]
    for i in places:
        x[i : i + 2] = np.full((2, width), i % 1000, np.float32)
    step = fg.jit(lambda x, w: fnp.tanh(x / 1000) * w + fnp.sum(x, axis=1, keepdims=True))
    w = np.linspace(0, 1, width, dtype=np.float32)
    out = create_array(tmp_path / "out.npy", (rows, width), "float32")
    if kind == "raw":
        again = open_array(path, dtype="float32", shape=(rows, width))
    else:
        again = open_array(path, "x" if kind == "safetensors" else None)
    for i in places:
        out[i : i + 2] = step(again[i : i + 2], w)
    out.flush()
    for i in places:
        want = np.tanh(np.float32(i % 1000) / 1000) * w + np.float32(i % 1000) * width
        np.testing.assert_allclose(np.asarray(out[i + 1]), want, rtol=1e-5)
    assert not np.asarray(out[rows // 2]).any(), "nothing was written there"
    assert os.stat(tmp_path / "out.npy").st_blocks * 512 < 1 << 20
