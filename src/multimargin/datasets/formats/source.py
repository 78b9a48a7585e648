"""From a path to bytes, and from trouble on the way to an error that names the file.

Nothing a file says makes a reader take more memory than ``max_bytes`` for the content, decompressed, and as much again
for the table made from it: both are refused on the way, before the memory is taken.
"""

import bz2
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from multimargin._core import TextError
from multimargin.errors import FileFormatError, InputError

__all__ = [
    "FilePath",
    "allowed_bytes",
    "check_size",
    "decoded",
    "fitting",
    "naming",
    "peek",
    "read_bytes",
    "read_text",
    "unpacked_name",
]

FilePath = str | PathLike[str]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PACKERS: dict[str, tuple[bytes, Callable[[Any], Any]]] = {
    ".gz": (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    ".bz2": (b"BZh", bz2.BZ2File),
}
"""Endings of compressed files, with how these begin and what reads them."""
_BLOCK = 1 << 20
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def allowed_bytes(max_bytes: int | None) -> int:
    """Return the limit given, or half of the memory of this machine or container."""
    if max_bytes is None:
        return _memory() // 2
    if not isinstance(max_bytes, int) or isinstance(max_bytes, bool) or not 0 < max_bytes < 1 << 63:
        msg = f"max_bytes must be a whole number above 0, or None for half of the memory, got {max_bytes!r}"
        raise InputError(msg)
    return max_bytes


def _memory() -> int:
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows does not tell
        machine = 32 << 30
    try:
        return min(machine, int(_CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit
        return machine


def check_size(path: FilePath, what: str, size: int, most: int) -> None:
    """Refuse what is larger than the limit."""
    if size > most:
        msg = (
            f"{path}: expected {what} of at most {most} bytes, found {size} bytes or more; "
            "pass a larger max_bytes if the file is to be trusted and there is memory for it"
        )
        raise FileFormatError(msg)


@contextmanager
def fitting(path: FilePath, needed: Callable[[], int]) -> Iterator[None]:
    """Say which file does not fit into memory; ``needed`` estimates the bytes, and is asked only then."""
    try:
        yield
    except MemoryError:
        msg = (
            f"{path}: expected a file that fits into memory, found one that needs about {needed()} bytes; "
            "free memory, or read a part of the file"
        )
        raise FileFormatError(msg) from None


@contextmanager
def _opening(path: FilePath) -> Iterator[None]:
    """Translate what can go wrong between a path and its bytes."""
    try:
        yield
    except InputError:
        raise
    except IsADirectoryError:
        msg = f"{path}: expected a data file, found a directory; give the path of one file in it"
        raise InputError(msg) from None
    except FileNotFoundError:
        msg = f"{path}: no such file; check the path (the working directory is {Path.cwd()})"
        raise InputError(msg) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileFormatError(_damaged(path, error)) from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is None:  # of bzip2, which has no error of its own
            raise FileFormatError(_damaged(path, error)) from None
        reason = getattr(error, "strerror", None) or str(error)
        msg = f"{path}: the file cannot be opened ({reason}); check the path and its permissions"
        raise InputError(msg) from None


def _damaged(path: FilePath, error: Exception) -> str:
    what = "bzip2" if str(path).endswith(".bz2") else "gzip"
    return f"{path}: expected a complete {what} file, found a damaged one ({error}); copy the file again"


def read_bytes(path: FilePath, max_bytes: int | None = None) -> bytes:
    """Return the content of a file, decompressed if it is gzip or bzip2."""
    most = allowed_bytes(max_bytes)
    content = io.BytesIO()
    with fitting(path, lambda: content.tell() + _BLOCK), _opening(path), Path(path).open("rb") as file:
        packed, source = _unpacking(file)
        while block := source.read(_BLOCK):
            check_size(path, "a content", content.tell() + len(block), most)
            content.write(block)
    ending = Path(path).suffix
    if ending in _PACKERS and packed != ending:
        what = ending.removeprefix(".").replace("gz", "gzip")
        msg = f"{path}: expected {what} data as the name says, found none; remove {ending} from the name"
        raise FileFormatError(msg)
    return content.getvalue()


def unpacked_name(path: FilePath) -> str:
    """Return the name of a file without the ending of a compressed one."""
    name = str(path)
    return name[: -len(Path(name).suffix)] if Path(name).suffix.lower() in _PACKERS else name


def _unpacking(file: Any) -> tuple[str, Any]:
    """Return how a file is compressed, by the ending that says so, and what reads its content."""
    start = file.peek(4)
    for ending, (magic, unpack) in _PACKERS.items():
        if start.startswith(magic):
            return ending, unpack(file)
    return "", file


def peek(path: FilePath, size: int = 4096) -> bytes:
    """Return the beginning of a file, decompressed if it is gzip or bzip2."""
    with _opening(path), Path(path).open("rb") as file:
        return bytes(_unpacking(file)[1].read(size))


def read_text(path: FilePath, max_bytes: int | None = None) -> bytes:
    """Return the content of a text file, refusing empty and binary ones."""
    content = read_bytes(path, max_bytes)
    with fitting(path, lambda: 2 * len(content)):
        text = content.removeprefix(_BYTE_ORDER_MARK)
    if not text or text.isspace():
        msg = f"{path}: expected data, found an empty file; was it written completely?"
        raise FileFormatError(msg)
    zero = text.find(b"\0")
    if zero >= 0:
        line = text.count(b"\n", 0, zero) + 1
        msg = f"{path}:{line}: expected text, found binary data; save it as UTF-8 text, or pass the right format="
        raise FileFormatError(msg)
    return text


@contextmanager
def naming(path: FilePath, text: bytes) -> Iterator[None]:
    """Put the path in front of the errors of the native readers, which begin with the line."""
    try:
        with fitting(path, lambda: len(text) + _table_bytes(text)):
            yield
    except TextError as error:
        msg = f"{path}{error}"
        raise FileFormatError(msg) from None


def _table_bytes(text: bytes) -> int:
    """Return about how much the numbers of a text take: a value and a column each, two offsets for each row."""
    return 12 * sum(text.count(mark) for mark in b",;\t:") + 28 * (text.count(b"\n") + 1)


def decoded(name: bytes) -> str:
    """Return a name of the file as text: UTF-8, or Latin-1 as old Weka wrote it."""
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return name.decode("latin-1")
