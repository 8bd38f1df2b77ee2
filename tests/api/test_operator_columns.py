"""`kubectl get bmr` agrees with the conditions, as the API server itself prints it."""

from support.runs import an_external_run
from support.stage import Stage

_LATENCY = {"name": "latency", "singleStream": {}}
_TRAFFIC = {"name": "traffic", "server": {"targetQps": 20}}


def _columns(stage: Stage, name: str, *words: str) -> dict[str, str]:
    """Return the columns of a run by their heads, as kubectl prints them."""
    table = stage.control_plane.kubectl("-n", stage.namespace, "get", "bmr", name, *words)
    head, line = table.splitlines()
    starts = [at for at, letter in enumerate(head) if letter != " " and head[at - 1 : at] in "  "]
    ends = [*starts[1:], None]
    return {
        head[start:end].strip(): line[start:end].strip()
        for start, end in zip(starts, ends, strict=True)
    }


def test_the_columns_agree_with_the_condition_and_show_the_headline(stage: Stage) -> None:
    """A VALID last scenario hides no INVALID one; the wide columns name node, model and runtime."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator()
    stage.apply(scenarios=[_LATENCY, _TRAFFIC])
    load = stage.load()
    load.show("Measuring", "latency")
    stage.wait("Measuring")
    running = _columns(stage, "a-run")
    assert (running["SCENARIO"], running["VALID"], running["QPS"]) == ("latency", "", "123.4")
    load.judge("latency", "INVALID")
    load.judge("traffic")
    load.end()
    status = stage.finished()

    assert stage.condition("Valid")["reason"] == "Invalid"
    (rule, *_) = status["scenarios"][0]["reasonRules"]
    assert stage.condition("Valid")["message"].endswith(f" inferometer explain {rule}.")
    shown = _columns(stage, "a-run")
    assert list(shown) == ["NAME", "PHASE", "SCENARIO", "VALID", "QPS", "P99", "J/INF", "AGE"]
    assert (shown["PHASE"], shown["VALID"]) == ("Complete", "INVALID")
    assert shown["SCENARIO"] == "latency"
    rate = status["scenarios"][0]["achievedMilliQps"]
    assert shown["QPS"] == f"{rate / 1000:.1f}"
    wide = _columns(stage, "a-run", "-o", "wide")
    assert wide["NODE"] == stage.kubelet.node == status["nodes"][0]
    assert wide["MODEL"] == stage.run()["spec"]["model"]["uri"]
    assert wide["RUNTIME"] == "OnnxRuntime"


def test_a_run_that_waits_shows_what_it_will_measure(stage: Stage) -> None:
    """Model and runtime are shown without an operator, an External server's model by its name."""
    run = {**an_external_run(), "metadata": {"name": "theirs"}}
    stage.api.create("BenchmarkRun", stage.namespace, run)
    wide = _columns(stage, "theirs", "-o", "wide")
    assert wide["MODEL"] == run["spec"]["model"]["name"]
    assert (wide["RUNTIME"], wide["NODE"], wide["VALID"]) == ("External", "", "")
