"""Units in what people read have one spelling."""

import re

from docgen.files import CHECKOUT

_FORMATTED_US = re.compile(r"\} ?us\b")
"""The end of a figure in an f-string. What people type, such as `p99<50us`, stays."""


def test_microseconds_are_written_with_their_sign() -> None:
    """Two spellings on one screen look like two units: a figure has µs, as `duration` writes it."""
    files = [*CHECKOUT.glob("*/src/**/*.py"), *CHECKOUT.glob("docgen/*.py")]
    found = {
        f"{path.relative_to(CHECKOUT)}: {line.strip()}"
        for path in files
        for line in path.read_text(encoding="utf-8").splitlines()
        if _FORMATTED_US.search(line)
    }
    assert len(files) > 500
    assert found == set()
