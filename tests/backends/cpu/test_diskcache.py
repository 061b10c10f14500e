"""The cache on disk: whole or absent, private, bounded, and never an error."""

import os
import random
import threading
import time

import pytest

from fgrad.backends.cpu.diskcache import DiskCache, content_key
from fgrad.backends.cpu.elf import Image

IMAGES = [
    Image(random.Random(i).randbytes(200 + 37 * i), {"entry": i, "b": 8}, tuple(range(0, i * 8, 8)))
    for i in range(10)
]
KEYS = [content_key(f"text {i}", "machine") for i in range(10)]


@pytest.fixture
def cache(tmp_path):
    return DiskCache(str(tmp_path / "cache"))


def files(cache):
    return [path for _, _, path in cache._files()]


def test_an_image_comes_back_as_it_was(cache):
    assert cache.get(KEYS[0]) is None
    for key, image in zip(KEYS, IMAGES, strict=True):
        cache.put(key, image)
    assert [cache.get(key) for key in KEYS] == IMAGES


def test_keys_differ_by_text_and_by_each_qualifier():
    keys = {content_key(text, *q) for text in ("a", "b") for q in ((), (1,), (2,), (1, 2), ("1",))}
    assert len(keys) == 10


def test_damaged_files_are_misses_and_are_removed(cache):
    r = random.Random(0)
    for trial in range(200):
        i = trial % 10
        cache.put(KEYS[i], IMAGES[i])
        path = cache._path(KEYS[i])
        with open(path, "rb") as file:
            data = bytearray(file.read())
        if trial % 4 == 0:
            data[r.randrange(len(data))] ^= 1 << r.randrange(8)
        elif trial % 4 == 1:
            data = data[: r.randrange(len(data))]
        elif trial % 4 == 2:
            data += b"x"
        else:
            data = bytearray()
        with open(path, "wb") as file:
            file.write(data)
        assert cache.get(KEYS[i]) is None
        assert not os.path.exists(path)


def test_threads_that_write_and_read_see_whole_images(cache):
    wrong = []

    def work(seed):
        r = random.Random(seed)
        for _ in range(100):
            i = r.randrange(10)
            if r.random() < 0.5:
                cache.put(KEYS[i], IMAGES[i])
            elif (image := cache.get(KEYS[i])) is not None and image != IMAGES[i]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not [path for path in files(cache) if os.path.basename(path).startswith("tmp")]


def test_the_folder_is_private_and_must_be(tmp_path):
    root = tmp_path / "a" / "b"
    DiskCache(str(root))
    assert root.stat().st_mode & 0o777 == 0o700
    root.chmod(0o770)
    with pytest.raises(PermissionError, match="not private"):
        DiskCache(str(root))


def test_a_disk_that_refuses_is_no_error(cache, monkeypatch):
    def refuse(*arguments, **keywords):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    cache.put(KEYS[0], IMAGES[0])
    monkeypatch.undo()
    monkeypatch.setattr("os.replace", refuse)
    cache.put(KEYS[0], IMAGES[0])
    assert cache.get(KEYS[0]) is None
    assert files(cache) == []


def test_a_sweep_keeps_what_was_used_last_within_the_limit(cache):
    for age, (key, image) in enumerate(zip(KEYS, IMAGES, strict=True)):
        cache.put(key, image)
        os.utime(cache._path(key), (0, time.time() - 100000 - age))
    assert cache.get(KEYS[9]) is not None  # used now, though the oldest
    cache.limit_bytes = sum(os.path.getsize(cache._path(KEYS[i])) for i in (9, 0, 1, 2))
    cache.sweep()
    assert [i for i in range(10) if cache.get(KEYS[i]) is not None] == [0, 1, 2, 9]


def test_a_sweep_removes_old_temporary_files_only(cache):
    cache.put(KEYS[0], IMAGES[0])
    folder = os.path.dirname(cache._path(KEYS[0]))
    for name, age in (("tmpold", 7200), ("tmpnew", 1)):
        path = os.path.join(folder, name)
        with open(path, "wb"):
            pass
        os.utime(path, (0, time.time() - age))
    cache.sweep()
    assert sorted(os.listdir(folder)) == sorted([KEYS[0][2:], "tmpnew"])


def test_writing_much_sweeps_without_being_asked(tmp_path):
    cache = DiskCache(str(tmp_path / "c"), limit_bytes=1 << 20)
    for i in range(8):
        cache.put(content_key(str(i)), Image(bytes(600_000), {}))
    assert sum(size for _, size, _ in cache._files()) <= 2 << 20
