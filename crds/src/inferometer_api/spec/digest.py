"""The digest of a spec: runs with equal digests measure the same."""

import hashlib
import json
from collections.abc import Collection

from inferometer_api.document import Document
from inferometer_api.spec.run import RunSpec

_OF_NO_FIGURE = frozenset({"retention", "suspend", "cancel"})


def spec_digest(spec: RunSpec) -> str:
    """Return a short digest of a resolved spec.

    Fields that change no figure, and those with their default, are left out.
    """
    text = canonical_json(spec, leave_out=_OF_NO_FIGURE)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def canonical_json(
    part: Document, *, leave_out: Collection[str] = (), with_defaults: bool = False
) -> str:
    """Return a part of a spec as JSON: equal for equal parts."""
    fields = part.model_dump(
        mode="json",
        by_alias=True,
        exclude_none=True,
        exclude_defaults=not with_defaults,
        exclude=set(leave_out),
    )
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))
