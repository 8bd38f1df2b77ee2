"""Which HTTP/1.1 replies are known to be good by what they have in common with an earlier one?

A server answers one and the same request: the same headers again and again, but for a date, and,
behind a proxy, an id and a duration that are new in each reply and mean nothing here.
"""

import re

from inferometer_loadgen.wire.contract import Reply
from inferometer_loadgen.wire.http1.head import MEANINGFUL

_LEARNS_EVERY = 16
"""Replies that are not the usual one until another is learned: some are never alike."""
_LENGTH = b"content-length"
_JSON_LENGTH = b"inference-header-content-length"
_NUMBERS = {_LENGTH: rb"(?P<length>\d{1,18})", _JSON_LENGTH: rb"(?P<json_length>\d{1,18})"}
_NEVER = re.compile(rb"(?!)")


class HttpReplyTemplate:
    """What is usual of the replies on one connection.

    ``head`` and ``size`` are of the last whole one: another that begins with these bytes and has
    this size is as good. ``size`` is 0 before there was one.
    """

    __slots__ = ("_json_length", "_like", "_unusual", "head", "size")

    def __init__(self) -> None:
        self.head = b""
        self.size = 0
        self._json_length = 0
        self._like = _NEVER
        self._unusual = 0

    def take(self, data: bytes) -> bool:
        """Make this the last whole one, if it is whole and good by what is usual."""
        found = self._like.match(data)
        if found is None:
            return False
        length, json_length = int(found["length"]), int(found["json_length"])
        end = found.end()
        if json_length > length or end + length != len(data):
            return False
        self.head, self.size, self._json_length = data[:end], len(data), json_length
        return True

    def learn(self, data: bytes) -> None:
        """Learn, now and then, from a reply that was read: whole, good, with JSON and tensors."""
        self._unusual -= 1
        if self._unusual < 0:
            self._unusual = _LEARNS_EVERY
            self._like = _pattern(data[: data.index(b"\r\n\r\n") + 4])
            self.take(data)

    def reply(self, data: bytes) -> Reply:
        """Return the body of a reply that begins with ``head``."""
        return Reply(data[len(self.head) :], self._json_length)


def _pattern(block: bytes) -> re.Pattern[bytes]:
    """Return what matches each header block that means the same as this one but for lengths.

    Headers that mean nothing here may have any value.
    """
    status, *lines = block.split(b"\r\n")[:-2]
    parts = [re.escape(status)]
    for line in lines:
        name = line.partition(b":")[0]
        key = name.lower()
        if key not in MEANINGFUL:
            parts.append(re.escape(name) + rb":[^\r\n]*+")
        elif key in _NUMBERS:
            parts.append(re.escape(name) + rb":[ \t]*+" + _NUMBERS[key] + rb"[ \t]*+")
        else:
            parts.append(re.escape(line))
    try:
        return re.compile(b"\r\n".join([*parts, b"\r\n"]))
    except re.error:  # a length stands twice
        return _NEVER
