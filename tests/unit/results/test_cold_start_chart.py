"""The phases of cold starts: their colours in the stacked bar, and their medians."""

import re

from inferometer_api.results.cold_start import ColdStartRecord, StartPhase
from inferometer_results.cold_start import GAP, phase_rows
from inferometer_results.report.chart import Bars
from inferometer_results.report.cold_start_chart import cold_start_chart

_GROUPS = {
    "node": ["scheduled", "volumes", "imagePulled", "fetcherStarted", "containerStarted"],
    "model": ["modelFetched", "modelRead"],
    "program": ["processStarted", "imported", "listening", "engineImported", "serverStarted"],
    "session": ["sessionCreated"],
    "inference": ["warmUp", "ready", "firstAnswer"],
}


def _start(*names: str) -> ColdStartRecord:
    phases = [
        StartPhase(name=name, start_nanoseconds=number, duration_nanoseconds=1, evidence="a test")
        for number, name in enumerate(names)
    ]
    return ColdStartRecord(
        state="ImagePresent",
        total_nanoseconds=len(names),
        phases=phases,
        gap_nanoseconds=0,
        client_delay_nanoseconds=0,
        first_queries_nanoseconds=[1],
    )


def _phases() -> set[str]:
    """Return the names of all phases, as the API lists them."""
    text = str(StartPhase.model_fields["name"].description)
    listed = re.sub(r"\(.*?\)|of a server that.*|In a cluster|locally|Then", "", text)
    return set(re.findall(r"\w+", listed))


def test_each_phase_has_its_group() -> None:
    """In clusters as well: time before the server's own process is not time of inference."""
    names = [name for group in _GROUPS.values() for name in group]
    assert set(names) == _phases()
    chart = cold_start_chart([_start(*names)])
    assert chart is not None
    bars = [each for each in chart.marks if isinstance(each, Bars)]
    found = {str(each.values[0]).partition(":")[0]: each.name for each in bars}
    assert found == {name: group for group, names in _GROUPS.items() for name in names}
    assert len({(each.name, each.series) for each in bars}) == len(_GROUPS)


def test_a_start_without_a_phase_spent_no_time_in_it() -> None:
    """Only two of three starts pulled the image, and only one fetched the model."""
    starts = [
        _start("scheduled", "ready"),
        _start("scheduled", "imagePulled", "ready"),
        _start("scheduled", "imagePulled", "modelFetched", "ready"),
    ]
    found = {each.name: each.median_ns for each in phase_rows(starts)}
    assert found == {"scheduled": 1, "imagePulled": 1, "modelFetched": 0, "ready": 1, GAP: 0}
    assert list(found) == ["scheduled", "imagePulled", "modelFetched", "ready", GAP]
