"""The digest of a spec: runs with equal digests measure the same."""

import hashlib
import json
from collections.abc import Collection

from inferometer_api.document import Document
from inferometer_api.spec.run import RunSpec

_OF_NO_FIGURE = frozenset({"active_deadline_seconds", "retention", "suspend", "cancel"})


def spec_digest(spec: RunSpec) -> str:
    """Return a short digest of a resolved spec.

    Fields with their default are left out, and those that change no figure: how long the run may
    take, what is kept, suspend and cancel. So are tolerations: which node measured is known itself.
    """
    placement = spec.server.placement.model_copy(update={"tolerations": []})
    server = spec.server.model_copy(update={"placement": placement})
    measured = spec.model_copy(update={"server": server})
    text = canonical_json(measured, leave_out=_OF_NO_FIGURE)
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
