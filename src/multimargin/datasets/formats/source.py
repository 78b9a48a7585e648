"""From a path to bytes, and from trouble on the way to an error that names the file."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from multimargin._core import TextError
from multimargin.errors import FileFormatError, InputError

__all__ = ["FilePath", "decoded", "naming", "peek", "read_bytes", "read_text"]

FilePath = str | PathLike[str]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"


@contextmanager
def _opening(path: FilePath) -> Iterator[None]:
    """Translate what can go wrong between a path and its bytes."""
    try:
        yield
    except IsADirectoryError:
        msg = f"{path}: expected a data file, found a directory; give the path of one file in it"
        raise InputError(msg) from None
    except FileNotFoundError:
        msg = f"{path}: no such file; check the path (the working directory is {Path.cwd()})"
        raise InputError(msg) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        msg = f"{path}: expected a complete gzip file, found a damaged one ({error}); copy the file again"
        raise FileFormatError(msg) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        msg = f"{path}: the file cannot be opened ({reason}); check the path and its permissions"
        raise InputError(msg) from None


def read_bytes(path: FilePath) -> bytes:
    """Return the content of a file, decompressed if it is gzip."""
    with _opening(path):
        data = Path(path).read_bytes()
        if data.startswith(_GZIP):
            return gzip.decompress(data)
    if str(path).endswith(".gz"):
        msg = f"{path}: expected gzip data as the name says, found none; remove .gz from the name"
        raise FileFormatError(msg)
    return data


def peek(path: FilePath, size: int = 4096) -> bytes:
    """Return the beginning of a file, decompressed if it is gzip."""
    with _opening(path), Path(path).open("rb") as file:
        start = file.read(size)
        if start.startswith(_GZIP):
            return zlib.decompressobj(wbits=31).decompress(start, size)
        return start


def read_text(path: FilePath) -> bytes:
    """Return the content of a text file, refusing empty and binary ones."""
    text = read_bytes(path).removeprefix(_BYTE_ORDER_MARK)
    if not text.strip():
        msg = f"{path}: expected data, found an empty file; was it written completely?"
        raise FileFormatError(msg)
    zero = text.find(b"\0")
    if zero >= 0:
        line = text.count(b"\n", 0, zero) + 1
        msg = f"{path}:{line}: expected text, found binary data; save it as UTF-8 text, or pass the right format="
        raise FileFormatError(msg)
    return text


@contextmanager
def naming(path: FilePath) -> Iterator[None]:
    """Put the path in front of the errors of the native readers, which begin with the line."""
    try:
        yield
    except TextError as error:
        msg = f"{path}{error}"
        raise FileFormatError(msg) from None


def decoded(name: bytes) -> str:
    """Return a name of the file as text: UTF-8, or Latin-1 as old Weka wrote it."""
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return name.decode("latin-1")
