"""Rules for the URL of an External server.

The pattern of the field limits the characters. Each rule here checks one part and has its own
message.
"""

import re
from typing import Any

from inferometer_api.rules import Rule

_SCHEME = r"^[^/?#]*://"
_USER = r"([^/?#]*@)?"
_LABEL = "[A-Za-z0-9_%-]{1,63}"
_HOST = rf"({_LABEL}(\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?\])"
_PORT = r"0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_END = r"([/?#]|$)"
_GROUP = "[0-9A-Fa-f]{1,4}"
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_LAST_TWO = rf"({_GROUP}:{_GROUP}|({_BYTE}\.){{3}}{_BYTE})"
_IPV6 = "|".join(
    (
        rf"({_GROUP}:){{6}}{_LAST_TWO}",
        rf"::({_GROUP}:){{5}}{_LAST_TWO}",
        *(
            rf"({_GROUP}(:{_GROUP}){{0,{before}}})?::({_GROUP}:){{{4 - before}}}{_LAST_TWO}"
            for before in range(5)
        ),
        rf"({_GROUP}(:{_GROUP}){{0,5}})?::{_GROUP}",
        rf"({_GROUP}(:{_GROUP}){{0,6}})?::",
    )
)
"""An IPv6 address (RFC 3986, §3.2.2), by how many groups stand before its `::`."""


def _rule(message: str, fits: str, *, where: str = "") -> Rule:
    """Return the rule that a url fits a pattern where another finds what it judges."""

    def holds(external: Any) -> bool:
        url = external.url
        return url is None or not re.search(where, url) or re.search(fits, url) is not None

    applies = f"!self.url.matches(r'{where}') || " if where else ""
    return Rule(
        cel=f"!has(self.url) || {applies}self.url.matches(r'{fits}')",
        message=message,
        holds=holds,
        field="url",
    )


URL_RULES = (
    _rule(
        "url must begin with http://, https://, grpc:// or grpcs://, in lower case",
        r"^(https?|grpcs?)://",
    ),
    _rule(
        "url must not contain a user or a password, which every reader of the run would see: send "
        "them in a header, by load.headersFile or, in a cluster, load.headersSecret",
        rf"{_SCHEME}[^/?#@]*{_END}",
        where=_SCHEME,
    ),
    _rule(
        "url must end with its path: a query (behind ?) and a fragment (behind #) are never sent",
        r"^[^?#]*$",
    ),
    _rule(
        "url must name a host behind ://, as HOST or HOST:PORT, with 1 to 63 characters between "
        "dots; an IPv6 address stands in brackets, as [::1]:8000",
        rf"{_SCHEME}{_USER}{_HOST}(:|{_END})",
        where=_SCHEME,
    ),
    _rule(
        "url must hold an IPv6 address in its brackets, as [::1]:8000",
        rf"{_SCHEME}{_USER}\[({_IPV6})(%|\])",
        where=rf"{_SCHEME}{_USER}\[[^]/?#]+\]",
    ),
    _rule(
        "url must name a port from 1 to 65535, or none",
        rf"{_SCHEME}{_USER}{_HOST}:({_PORT})?{_END}",
        where=rf"{_SCHEME}{_USER}{_HOST}:[^/?#@]*{_END}",
    ),
)
"""Of the document that holds the `url`."""
