"""Labels of a suite's runs, by which the operator, the store and the explorer find them."""

import hashlib
import re

SUITE_LABEL = "inferometer.dev/suite"
"""On a run and on an execution: the name of the suite, for a schedule that of the scheduled one."""
EXECUTION_LABEL = "inferometer.dev/suite-execution"
"""On a run: the execution of the suite, which is the suite itself without a schedule."""
SUITE_UID_LABEL = "inferometer.dev/suite-uid"
CELL_LABEL = "inferometer.dev/suite-cell"
SYSTEM_LABEL = "inferometer.dev/suite-system"
BLOCK_LABEL = "inferometer.dev/suite-block"
ROLE_LABEL = "inferometer.dev/suite-role"
SPEC_LABEL = "inferometer.dev/suite-spec"
"""On a run of the anchor: the digest of its cell's spec. Pairs of another one do not count."""
POSITION_ANNOTATION = "inferometer.dev/suite-position"
"""On a run in a cluster: its place in the plan, six digits. The API server's times are whole
seconds, in which a suite creates many runs."""
AXIS_LABEL_PREFIX = "axis.inferometer.dev/"
"""Before the name of an axis: the label with the name of its value."""

_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


def label_value(text: str) -> str:
    """Return a text as a label's value, with a digest if it is too long or has other characters."""
    if _LABEL_VALUE.fullmatch(text):
        return text
    start = re.sub(r"[^A-Za-z0-9._-]", "-", text)[:50].strip("-._")
    return f"{start}-{digest(text)}" if start else digest(text)


def digest(text: str) -> str:
    """Return the first ten digits of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]
