"""The rule that a file from the web needs its checksum."""

from collections.abc import Callable
from typing import Any

from inferometer_api.rules import Rule


def needs_checksum(what: str, read: Callable[[Any], tuple[str | None, str | None]]) -> Rule:
    """Return the rule for a document with `uri` and `sha256`, which `read` returns.

    Without it the author of a run could have pods read any page that they reach.
    """

    def holds(document: Any) -> bool:
        uri, sha256 = read(document)
        return not (uri or "").startswith("https://") or bool(sha256)

    return Rule(
        cel="!has(self.uri) || !self.uri.startsWith('https://') || has(self.sha256)",
        message=f"{what} from https:// needs its sha256: the 64 hexadecimal digits that sha256sum "
        "prints",
        holds=holds,
        field="sha256",
    )
