"""Template of a good HTTP/1.1 reply: a pattern that identifies another good reply without parsing.

A server answers the same request with the same headers again and again. Only the date differs and,
behind a proxy, an id and a duration that carry no meaning for a client.
"""

import re

from inferometer_loadgen.wire.contract import ReplyBody
from inferometer_loadgen.wire.http1.head import MEANINGFUL

_LEARNS_EVERY = 16
"""Unmatched replies until another is learned: some servers' replies never match."""
_LENGTH = b"content-length"
_JSON_LENGTH = b"inference-header-content-length"
_NUMBERS = {_LENGTH: rb"(?P<length>\d{1,18})", _JSON_LENGTH: rb"(?P<json_length>\d{1,18})"}
_NEVER = re.compile(rb"(?!)")


class HttpReplyTemplate:
    """Template of the good replies on one connection.

    ``head`` and ``size`` belong to the last matching reply: another that begins with these bytes
    and has this size is good as well. ``size`` is 0 before the first.
    """

    __slots__ = ("_json_length", "_pattern", "_unmatched", "head", "size")

    def __init__(self) -> None:
        self.head = b""
        self.size = 0
        self._json_length = 0
        self._pattern = _NEVER
        self._unmatched = 0

    def matches(self, data: bytes) -> bool:
        """Return whether a reply is whole and good by the template; if so, remember its head."""
        found = self._pattern.match(data)
        if found is None:
            return False
        length, json_length = int(found["length"]), int(found["json_length"])
        end = found.end()
        if json_length > length or end + length != len(data):
            return False
        self.head, self.size, self._json_length = data[:end], len(data), json_length
        return True

    def learn(self, data: bytes) -> None:
        """Learn, now and then, from a whole good reply with JSON and binary tensors."""
        self._unmatched -= 1
        if self._unmatched < 0:
            self._unmatched = _LEARNS_EVERY
            self._pattern = _compile(data[: data.index(b"\r\n\r\n") + 4])
            self.matches(data)

    def reply(self, data: bytes) -> ReplyBody:
        """Return the body of a reply that begins with ``head``."""
        return ReplyBody(data[len(self.head) :], self._json_length)


def _compile(block: bytes) -> re.Pattern[bytes]:
    """Return the pattern of header blocks that mean the same as this one except for lengths.

    Headers without meaning for the client may have any value.
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
    except re.error:  # a length header is repeated
        return _NEVER
