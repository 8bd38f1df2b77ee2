"""Each event that an agent logs is one line that can be parsed again."""

from datetime import datetime

import pytest

from inferometer_telemetry.log import log


def test_a_fact_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Time, level and event come first; what is no word is quoted, line ends too."""
    log("error", "no sample", source="rapl", missing='a "b"\nc', nothing="", path="a=b")
    (line,) = capsys.readouterr().err.splitlines()
    stamp, _, rest = line.partition(" ")
    assert datetime.fromisoformat(stamp.removeprefix("timestamp=")).utcoffset() is not None
    assert rest == (
        'level=error event="no sample" source=rapl missing="a \\"b\\"\\nc" nothing="" path="a=b"'
    )
