"""`inferometer profile` prints and exports a profile, and checks its targets before it measures."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from inferometer_api.document import API_VERSION
from inferometer_api.results.result import ResultDocument, StepProfile
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.local import measurement
from inferometer_results.analyses import ANALYSES, analysis_documents
from inferometer_results.export.chrome_trace import chrome_trace
from inferometer_results.export.otlp import otlp_message
from inferometer_results.store.store import Store
from inferometer_results.store.tables import RESULT
from support.command import Command, CommandOutput
from support.fake_load import free_port
from support.otlp_receiver import otlp_receiver
from support.profiled_results import a_profiled_result, recorded_cpu_profile
from support.recorded_kernels import recorded_profile

Profile = Callable[..., CommandOutput]


class Measurement:
    """Returns a result at once."""

    def __init__(self) -> None:
        self.document = a_profiled_result(recorded_cpu_profile())
        self.runs: list[BenchmarkRun] = []

    def measure(self, run: BenchmarkRun, *_: Any, **__: Any) -> ResultDocument:
        """Return the result."""
        self.runs.append(run)
        return self.document


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measurement:
    """Replace the measurement."""
    made = Measurement()
    monkeypatch.setattr(measurement, "measure", made.measure)
    return made


@pytest.fixture
def profile(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    measured: Measurement,
) -> Profile:
    """Run `inferometer profile` of a model with some options, in an empty directory."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("INFEROMETER_DATABASE", raising=False)
    monkeypatch.chdir(tmp_path)
    command = Command(monkeypatch, capsys)

    def run(*options: str, target: str = "zoo://classification/squeezenet1_1") -> CommandOutput:
        return command("profile", target, "--output", "out", *options)

    return run


def test_json_is_an_object_of_the_analyses(profile: Profile, measured: Measurement) -> None:
    """It has a1 to a15, each with rows or a reason, and nothing else is on standard output."""
    shown = profile("--json")
    found = json.loads(shown.stdout)
    assert list(found) == [f"a{number}" for number in range(1, 16)]
    assert found == json.loads(json.dumps(analysis_documents(measured.document)))
    assert len(found["a2"]["rows"]) == len(recorded_cpu_profile().layers)


@pytest.mark.parametrize("saves", [True, False])
def test_a_profile_is_kept_for_the_explorer(
    profile: Profile, tmp_path: Path, *, saves: bool
) -> None:
    """As every run is; --no-save leaves it out."""
    shown = profile(*([] if saves else ["--no-save"]))
    assert shown.code == 0
    assert ("stored" in shown.stderr) is saves
    database = tmp_path / "data" / "inferometer" / "results.db"
    assert database.exists() is saves
    if saves:
        with Store(str(database)) as store:
            assert store.select(select(RESULT.c.verdict)) == [{"verdict": "VALID"}]


@pytest.mark.parametrize(("recorded", "count"), [(recorded_profile, 15), (recorded_cpu_profile, 7)])
def test_csv_is_a_file_for_each_analysis_with_figures(
    profile: Profile,
    measured: Measurement,
    tmp_path: Path,
    recorded: Callable[[], StepProfile],
    count: int,
) -> None:
    """Their names begin with the analysis; the directory is created."""
    measured.document = a_profiled_result(recorded())
    profile("--csv", "new/analyses")
    files = sorted(each.name for each in (tmp_path / "new/analyses").iterdir())
    keys = {each.split("-")[0] for each in files}
    assert len(files) == len(keys) == count
    assert keys <= {f"a{number}" for number in range(1, len(ANALYSES) + 1)}
    assert all((tmp_path / "new/analyses" / each).read_text().count("\n") > 1 for each in files)


def test_spans_go_to_files_and_to_a_collector(
    profile: Profile, measured: Measurement, tmp_path: Path
) -> None:
    """A collector gets a message without spans before the measurement, and then all of them."""
    profile("--perfetto", "trace.json", "--otlp", "spans.json")
    assert (tmp_path / "trace.json").read_text() == chrome_trace(measured.document)
    assert (tmp_path / "spans.json").read_bytes() == otlp_message(measured.document) + b"\n"
    with otlp_receiver() as collector:
        ended = profile("--otlp", f"http://127.0.0.1:{collector.port}")
    assert f"sent    http://127.0.0.1:{collector.port}/v1/traces" in ended.stderr
    assert [each.body for each in collector.messages] == [
        b'{"resourceSpans":[]}',
        otlp_message(measured.document),
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--csv", "file"), "Cannot write the analyses to file: "),
        (("--csv", "file/below"), "Choose another directory with --csv."),
        (("--perfetto", "missing/trace.json"), "the directory missing does not exist"),
        (("--perfetto", "."), "Cannot write .: it is a directory."),
        (("--otlp", "missing/spans.json"), "choose another file with --otlp"),
        (("--otlp", "localhost:4318"), "--otlp expects a URL such as http://127.0.0.1:4318"),
        (("--otlp", f"http://127.0.0.1:{free_port()}"), "Connection refused"),
    ],
)
def test_a_target_that_cannot_be_written_is_refused_before_the_measurement(
    profile: Profile, measured: Measurement, tmp_path: Path, options: list[str], words: str
) -> None:
    """A file in the place of a directory, a missing directory, a collector that is not there."""
    (tmp_path / "file").touch()
    refused = profile(*options)
    assert refused.code in {1, 2}
    assert words in refused.stderr
    assert measured.runs == []


@pytest.mark.parametrize("option", ["--perfetto", "--otlp"])
def test_a_full_disk_leaves_the_result(profile: Profile, tmp_path: Path, option: str) -> None:
    """The file that cannot be written is named after the result was saved and shown."""
    failed = profile(option, "/dev/full")
    assert failed.code == 1
    assert "Cannot write /dev/full: No space left on device." in failed.stderr
    assert (tmp_path / "out/result.json").exists()
    assert "Conv" in failed.stdout


def test_analyses_that_cannot_be_written_cost_no_spans(
    profile: Profile, measured: Measurement, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Something else took the name of their directory during the measurement."""

    def measure(*words: Any) -> ResultDocument:
        (tmp_path / "analyses").touch()
        return measured.measure(*words)

    monkeypatch.setattr(measurement, "measure", measure)
    failed = profile("--csv", "analyses", "--otlp", "spans.json")
    assert failed.code == 1
    assert "Cannot write analyses: File exists." in failed.stderr
    assert (tmp_path / "spans.json").read_bytes() == otlp_message(measured.document) + b"\n"


def test_a_profile_without_an_inference_has_no_spans(
    profile: Profile, measured: Measurement, tmp_path: Path
) -> None:
    """No empty file is written, and the sentence says why."""
    measured.document = a_profiled_result(StepProfile(unavailable={"Model": "It has none."}))
    failed = profile("--otlp", "spans.json")
    assert failed.code == 1
    assert "There are no spans to export" in failed.stderr
    assert not (tmp_path / "spans.json").exists()


def test_a_profile_without_a_layer_has_failed(
    profile: Profile, measured: Measurement, tmp_path: Path
) -> None:
    """The latency is kept and shown; with a layer in any step it has not failed."""
    lacking = StepProfile(levels=["Model"], unavailable={"Layer": "It needs a disk."})
    measured.document = a_profiled_result(lacking)
    failed = profile()
    assert failed.code == 1
    assert "No layer was profiled. It needs a disk." in failed.stderr
    assert (tmp_path / "out/result.json").exists()
    (scenario,) = measured.document.scenarios
    (step,) = scenario.steps
    whole = step.model_copy(update={"profile": recorded_cpu_profile()})
    measured.document = measured.document.model_copy(
        update={"scenarios": [scenario.model_copy(update={"steps": [step, whole]})]}
    )
    assert profile().code == 0


@pytest.mark.parametrize("target", ["zoo://classification/squeezenet1_1", "run.yaml"])
def test_shapes_of_open_axes_reach_the_load(
    profile: Profile, measured: Measurement, tmp_path: Path, target: str
) -> None:
    """The option is that of the other commands about layers."""
    (tmp_path / "run.yaml").write_text(
        f"""
        apiVersion: {API_VERSION}
        kind: BenchmarkRun
        metadata: {{name: mine}}
        spec:
          model: {{uri: "zoo://classification/squeezenet1_1"}}
          scenarios: [{{name: one, profile: {{batchSizes: [1]}}}}]
        """
    )
    profile("--warm-up-shape", "image=1,3,64,64", "--warm-up-shape", "other=1,8", target=target)
    (run,) = measured.runs
    assert run.spec.load.inputs.random is not None
    assert run.spec.load.inputs.random.shapes == {"image": [1, 3, 64, 64], "other": [1, 8]}
