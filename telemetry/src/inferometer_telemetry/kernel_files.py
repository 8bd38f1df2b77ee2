"""Reads small files of the kernel, and never makes up a figure that is missing."""

import os
from pathlib import Path

_PIECE_BYTES = 65_536
_WHOLE_BYTES = 2048
"""A shorter answer is whole: the kernel fills a page before it makes a reader ask again."""
_MOST_BYTES = 4 * 2**20
"""Far above what any of these files has: /proc/stat of 1,024 CPUs is below."""
_MOST = 2**64


class UnreadableError(Exception):
    """A file gives no figure; the message says why, as a sentence without its period."""


class AbsentError(UnreadableError):
    """There is no such file, or no such line in it."""


class DeniedError(UnreadableError):
    """The file may not be read by this process."""


def text(path: str | Path) -> str:
    """Return what a file says, whole. Raises UnreadableError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = _all_of(descriptor)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        raise AbsentError(f"there is no {path}") from None
    except PermissionError:
        raise DeniedError(f"{path} may not be read by user {os.geteuid()}") from None
    except OSError as error:
        raise UnreadableError(f"{path} cannot be read: {error.strerror}") from None
    # Each of the kernel's lines ends: without its end, digits may be missing.
    if not data.endswith(b"\n"):
        raise UnreadableError(f"{path} is cut off")
    return data.decode("utf-8", errors="replace")


def number(path: str | Path) -> int:
    """Return the whole number, not below zero, that a file consists of. Raises UnreadableError."""
    return whole_number(text(path), path)


def signed_number(path: str | Path) -> int:
    """Return the whole number that a file consists of. Raises UnreadableError."""
    content = text(path).strip()
    below = content.startswith("-")
    value = whole_number(content.removeprefix("-"), path)
    return -value if below else value


def named_number(path: str | Path, name: str) -> int:
    """Return the whole number behind a name, in a file whose lines begin with names.

    A unit may follow. Raises UnreadableError; where no line has the name, AbsentError.
    """
    return named(text(path), name, path)


def named(content: str, name: str, where: str | Path) -> int:
    """Return the whole number behind a name, in what a file says. Raises as `named_number`."""
    begin = f"\n{content}".find(f"\n{name} ")
    if begin < 0:
        raise AbsentError(f"{where} has no {name}")
    words = content[begin + len(name) : content.index("\n", begin)].split(maxsplit=1)
    return whole_number(words[0] if words else "", where)


def whole_number(content: str, where: str | Path) -> int:
    """Return the number that a word is. Raises UnreadableError, which names the place."""
    word = content.strip()
    if not _is_number(word):
        raise UnreadableError(f"{where} says {word[:40]!r} instead of a number")
    return int(word)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= 20 and int(word) < _MOST


def _all_of(descriptor: int) -> bytes:
    pieces = []
    total = 0
    while piece := os.read(descriptor, _PIECE_BYTES):
        pieces.append(piece)
        total += len(piece)
        if len(piece) < _WHOLE_BYTES or total > _MOST_BYTES:
            break
    return b"".join(pieces)
