"""Linked code on disk, found by content: `DiskCache.get` and `put` of images.

A file is: magic, 16-byte digest of the rest, length of the head, head (symbols and fixups), blob.
It is written under a temporary name and renamed, so a reader sees a whole file or none. Whatever is
unexpected is a miss, and the file is removed. What lies here is executed: the folder must belong to
this user and be writable by nobody else. A full or read-only disk means no cache, never an error.
"""

import contextlib
import hashlib
import json
import os
import struct
import tempfile
import time
from collections.abc import Iterator

from fgrad.backends.cpu.elf import Image

_MAGIC = b"fgimg1\0\0"
_DIGEST_BYTES = 16
_HEAD_AT = len(_MAGIC) + _DIGEST_BYTES
_TOUCH_SECONDS = 24 * 3600  # the age at which a hit renews a file's time stamp
_STALE_SECONDS = 3600  # the age at which a temporary file counts as left behind


def content_key(text: str, *qualifiers: object) -> str:
    """Return the key for compiled `text`; the qualifiers are all else the code depends on."""
    machine = hashlib.blake2b(repr(qualifiers).encode()).digest()
    return hashlib.blake2b(text.encode(), digest_size=20, key=machine).hexdigest()


class DiskCache:
    """Images in a folder, at most `limit_bytes` after a sweep. Threads and processes may share.

    Raises PermissionError if the folder is not private to this user, OSError if it cannot be made.
    """

    def __init__(self, root: str, limit_bytes: int = 512 << 20) -> None:
        self.root = root
        self.limit_bytes = limit_bytes
        self._written = 0  # bytes since the last sweep
        os.makedirs(root, 0o700, exist_ok=True)
        status = os.stat(root)
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise PermissionError(
                f"{root} is not private to this user (code is executed from it); "
                "chmod go-w it, or set FGRAD_CACHE_DIR"
            )

    def get(self, key: str) -> Image | None:
        """Return the image kept under `key`, None if there is none or it is damaged."""
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                data = file.read()
                age = time.time() - os.fstat(file.fileno()).st_mtime
        except OSError:
            return None
        image = _decode(data)
        with contextlib.suppress(OSError):
            if image is None:
                os.unlink(path)
            elif age > _TOUCH_SECONDS:
                os.utime(path)
        return image

    def put(self, key: str, image: Image) -> None:
        """Keep `image` under `key`. Does nothing if the disk refuses."""
        data, path = _encode(image), self._path(key)
        try:
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix="tmp", dir=os.path.dirname(path))
        except OSError:
            return
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            return
        self._written += len(data)
        if self._written > max(self.limit_bytes // 8, 1 << 20):
            self.sweep()

    def remove(self, key: str) -> None:
        """Keep nothing under `key` any more."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(key))

    def sweep(self) -> None:
        """Remove the files used longest ago until the rest is within the limit."""
        self._written = 0
        files = sorted(self._files(), reverse=True)
        total = 0
        for modified, size, path in files:
            is_temporary = os.path.basename(path).startswith("tmp")
            if is_temporary:
                is_over = time.time() - modified > _STALE_SECONDS
            else:
                total += size
                is_over = total > self.limit_bytes
            if is_over:
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def sweep_if_written(self) -> None:
        """Sweep if anything was put since the last time; for the end of the process."""
        if self._written:
            self.sweep()

    def _path(self, key: str) -> str:
        return os.path.join(self.root, key[:2], key[2:])

    def _files(self) -> Iterator[tuple[float, int, str]]:
        """Yield (modification time, bytes, path); files that vanish meanwhile are left out."""
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):
                    status = os.stat(path)
                    yield status.st_mtime, status.st_size, path


def _encode(image: Image) -> bytes:
    head = json.dumps({"symbols": image.symbols, "fixups": image.fixups}).encode()
    rest = struct.pack("<I", len(head)) + head + image.blob
    return _MAGIC + hashlib.blake2b(rest, digest_size=_DIGEST_BYTES).digest() + rest


def _decode(data: bytes) -> Image | None:
    digest = hashlib.blake2b(data[_HEAD_AT:], digest_size=_DIGEST_BYTES).digest()
    if data[:_HEAD_AT] != _MAGIC + digest or len(data) < _HEAD_AT + 4:
        return None
    (length,) = struct.unpack_from("<I", data, _HEAD_AT)
    blob_at = _HEAD_AT + 4 + length
    try:
        head = json.loads(data[_HEAD_AT + 4 : blob_at])
        return Image(data[blob_at:], head["symbols"], tuple(head["fixups"]))
    except (ValueError, KeyError, TypeError):  # written by somebody else, with a right digest
        return None
