"""Each event that an agent logs is one line that can be parsed again."""

import pytest

from inferometer_api.timestamps import format_time, parse_time
from inferometer_telemetry.log import log


def test_a_fact_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Time, level and event come first; what is no word is quoted, line ends too."""
    log("error", "no sample", source="rapl", missing='a "b"\nc', nothing="", path="a=b")
    (line,) = capsys.readouterr().err.splitlines()
    stamp, _, rest = line.partition(" ")
    written = stamp.removeprefix("timestamp=")
    moment = parse_time(written)
    assert moment is not None
    assert format_time(moment) == written
    assert rest == (
        'level=error event="no sample" source=rapl missing="a \\"b\\"\\nc" nothing="" path="a=b"'
    )
