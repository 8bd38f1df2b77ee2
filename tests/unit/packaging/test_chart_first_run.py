"""The pod of `helm test` judges its run by its end, and reports the reason of a failure."""

import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from docgen.files import CHECKOUT

Json = dict[str, Any]
Answering = Callable[..., list[tuple[str, str]]]
PATH = "bench/benchmarkruns/first-abcde"
COMPLETE = {"Complete": "True", "Finished": "True"}
FAILED = {"Failed": "True", "Finished": "True"}


@pytest.fixture
def script() -> ModuleType:
    """Load the script as the pod's Python does."""
    file = CHECKOUT / "helm" / "inferometer" / "files" / "first_run.py"
    spec = importlib.util.spec_from_file_location("first_run", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def a_run(phase: str, conditions: dict[str, str]) -> Json:
    """Return a run of this state."""
    condition_list = [
        {"type": kind, "status": value, "reason": "Because", "message": f"{kind} is {value}."}
        for kind, value in conditions.items()
    ]
    return {
        "metadata": {"name": "first-abcde"},
        "status": {"phase": phase, "conditions": condition_list},
    }


@pytest.fixture
def answering(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Answering:
    """Let the API server answer each GET with the next run, the last one for ever.

    The returned list records the requests.
    """

    def answers(*runs: Json) -> list[tuple[str, str]]:
        requests: list[tuple[str, str]] = []
        states = iter(runs)

        def call(method: str, path: str, body: str | None = None) -> Json:
            requests.append((method, path))
            return next(states, runs[-1]) if method == "GET" else runs[-1]

        monkeypatch.setattr(script, "call", call)
        monkeypatch.setattr(script.time, "sleep", lambda _: None)
        return requests

    return answers


def test_a_complete_run_passes_and_is_deleted(
    script: ModuleType, answering: Answering, capsys: pytest.CaptureFixture[str]
) -> None:
    """Complete and Finished: exit code 0, each phase printed once, the run deleted."""
    requests = answering(
        a_run("Starting", {}),
        a_run("Starting", {"Accepted": "True"}),
        a_run("Complete", {"Complete": "True"}),
        a_run("Complete", COMPLETE),
    )
    assert script.main("bench", 60.0, "{}") == 0
    assert requests == [("POST", "bench/benchmarkruns"), *[("GET", PATH)] * 4, ("DELETE", PATH)]
    output = capsys.readouterr().out
    assert output.count("  Starting\n") == 1
    assert "It is Complete: Complete is True." in output


def test_a_failed_run_fails_at_once_and_is_kept(
    script: ModuleType, answering: Answering, capsys: pytest.CaptureFixture[str]
) -> None:
    """Failed: exit code 1 without waiting longer, every condition printed, the run kept."""
    requests = answering(a_run("Failed", FAILED))
    assert script.main("bench", 60.0, "{}") == 1
    assert requests == [("POST", "bench/benchmarkruns"), ("GET", PATH)]
    output = capsys.readouterr().out
    assert "  Failed=True Because: Failed is True." in output
    assert "kubectl describe benchmarkrun first-abcde --namespace bench" in output


def test_a_run_without_an_operator_is_explained(
    script: ModuleType, answering: Answering, capsys: pytest.CaptureFixture[str]
) -> None:
    """No condition at all when the time is over: no operator serves the namespace."""
    answering({"metadata": {"name": "first-abcde"}})
    assert script.main("bench", 0.0, "{}") == 1
    assert "does an operator serve this namespace" in capsys.readouterr().out
