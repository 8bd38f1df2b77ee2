"""The explorer shows what the layer database knows of machines and models."""

import csv
from pathlib import Path

import pytest
from pydantic import BaseModel
from starlette.testclient import TestClient

from inferometer_api.layers.advice import AdviceGain, AdvicePiece, ModelAdvice
from inferometer_api.layers.graph import LayerGraph
from inferometer_api.layers.split import split
from inferometer_api.layers.timings import (
    KernelTiming,
    LayerFailure,
    LayerTimings,
    VariantTiming,
)
from inferometer_api.results.result import ResultDocument, StepLayers
from inferometer_results.explore.prices import NodePrice, PriceList
from inferometer_results.layers.bound_report import (
    bound_document,
    bound_report,
    bound_sentences,
)
from inferometer_results.layers.brick_errors import busy_sentence
from inferometer_results.layers.machine_views import (
    bound_rows,
    layer_machines,
    predicted_latencies,
)
from inferometer_results.layers.step_layers import layer_sentences
from inferometer_results.quantity import energy, significant
from inferometer_results.report.page import render_report
from inferometer_results.service.access.rules import AccessRules
from inferometer_results.service.api import machine_schema
from inferometer_results.service.app import create_app
from inferometer_results.store.advice import advice_sources, keep_advice
from inferometer_results.store.index_rows import JournalRow, Origin
from inferometer_results.store.layer_timings import all_timings, keep_timings
from inferometer_results.store.store import Store
from support.layer_graphs import MACHINE, activation, brick_timings, layer_graph, timing
from support.results import a_metered_result, a_result

SLOW = MACHINE.model_copy(update={"name": "<slow> CPU"})
GRAPH = layer_graph(("a", [0], [1]), ("b", [1], [2]), model="net")
PLAIN = GRAPH.model_copy(update={"layout": "Plain"})


def _bricks(name: str, **nanoseconds: int) -> LayerTimings:
    found = brick_timings({key: timing(each) for key, each in nanoseconds.items()})
    machine = MACHINE.model_copy(update={"name": name})
    return found.model_copy(update={"machine": machine, "graphs": [GRAPH]})


def _variant(*nanoseconds: int) -> VariantTiming:
    return VariantTiming(
        nanoseconds=list(nanoseconds), precision="FP32", version="1", difference=0.0
    )


def _bound() -> LayerTimings:
    return LayerTimings(
        machine=MACHINE,
        seconds=1.0,
        kernels=[
            KernelTiming(key=key, engine="onnxruntime", precision="FP32", nanoseconds=each)
            for key, each in (("a", 300.0), ("b", 500.0))
        ],
        variants={
            "onnxruntime:FP32:1": _variant(*range(1000, 1010)),
            "openvino:FP32:1": _variant(*range(900, 910)),
        },
        graphs=[PLAIN],
    )


def test_machines_are_ranked_for_a_model_that_ran_on_one_of_them() -> None:
    """The fastest machine comes first; one that lacks a layer comes last."""
    machines = layer_machines(
        [_bricks("slow", a=5_000, b=5_000), _bricks("fast", a=1_000, b=1_000), _bricks("new", a=10)]
    )
    rows = predicted_latencies(machines)
    assert [each.machine.name for each in rows] == ["fast", "slow", "new"]
    assert [each.prediction.is_complete for each in rows] == [True, True, False]
    assert [each.prediction.uncertainty for each in rows] == [0, 0, None]


def test_a_machine_with_several_threads_is_ranked_by_chains() -> None:
    """There, chains of three layers are timed; a single layer of the model says nothing."""
    threads = MACHINE.model_copy(update={"threads": 2})
    (use,) = split(GRAPH, 3)
    timed = _bricks("pair", **{use.key: 2_100, "a": 9_000}).model_copy(update={"machine": threads})
    (row,) = predicted_latencies(layer_machines([timed]))
    assert row.prediction.sequential_nanoseconds == 2_100
    assert row.prediction.is_complete


def _chain(model: str, *sizes: int) -> LayerGraph:
    """Return a chain of the same operator on tensors of some sizes."""
    graph = layer_graph(*((f"r{size}", [at], [at + 1]) for at, size in enumerate(sizes)))
    layers = {
        f"r{size}": graph.layers[f"r{size}"].model_copy(
            update={"operator": "Relu", "inputs": [activation(size)], "outputs": [activation(size)]}
        )
        for size in sizes
    }
    return graph.model_copy(update={"model": model, "layers": layers})


def test_a_machine_is_ranked_by_layers_of_other_sizes() -> None:
    """A model that shares no layer with those that were timed there has an interpolated time."""
    sizes = (1_000, 2_000, 4_000, 8_000, 16_000)
    timed = _bricks("fast", **{f"r{size}": 100 + size for size in sizes})
    graphs = [_chain("timed", *sizes), _chain("other", 3_000, 6_000)]
    rows = predicted_latencies(layer_machines([timed.model_copy(update={"graphs": graphs})]))
    other, known = (row.prediction for row in rows)
    assert (other.model, other.layers_known, other.layers_interpolated) == ("other", 0, 2)
    assert other.is_complete
    assert other.sequential_nanoseconds == pytest.approx(100 + 9_000, rel=0.01)
    assert other.uncertainty is not None
    assert known.uncertainty is not None
    assert other.uncertainty > known.uncertainty == 0


def test_a_bound_has_the_newest_measurement_and_faster_variants() -> None:
    """The bound is the sum of both layers; OpenVINO is faster beyond noise."""
    (row,) = bound_rows([_bound()], layer_machines([_bound()]))
    assert row.report.bound.sequential_ns == 800
    assert row.report.fastest is not None
    assert round(row.report.fastest.value) == 904
    assert [name for name, _ in row.faster] == ["openvino, FP32, 1 thread"]


def _spread() -> LayerTimings:
    """Return the bound with timings whose quartiles are 10 % apart, next to a reference."""
    bound = _bound()
    kernels = [
        each.model_copy(update={"spread_nanoseconds": each.nanoseconds / 10})
        for each in bound.kernels
    ]
    reference = {"reference_nanoseconds": 500_000, "reference_spread_nanoseconds": 6_000.0}
    return bound.model_copy(update={"kernels": kernels, **reference})


def test_the_noise_floor_of_a_cpu_stands_next_to_the_bound() -> None:
    """It is that of the product in the same rounds, and that of the layers."""
    report = bound_report("net", "FP32", PLAIN, None, _spread())
    sentences = list(bound_sentences(report))
    assert (
        "Noise floor: the quartiles of a matrix product of 0.500 ms in the same rounds are 1.2 % "
        "apart, the quartiles of a layer's timing are 10.0 % apart in the median."
    ) in sentences
    assert "Sequential bound: 0.001 ms (95 %: 0.001 to 0.001; fastest layers: 2 by " in "".join(
        sentences
    )
    document = bound_document(report)
    assert document["noiseFloor"] == {
        "emptyKernelNanoseconds": None,
        "referenceNanoseconds": 500_000,
        "referenceSpread": 0.012,
        "layerSpread": 0.1,
    }
    ends = document["sequentialLowNanoseconds"], document["sequentialHighNanoseconds"]
    assert ends == (684, 916)


def test_a_noise_floor_that_rounds_to_zero_is_small(tmp_path: Path) -> None:
    """No spread is called 0.0 %, which looks exact; ± is none without interpolation."""
    spread = {"reference_nanoseconds": 500_000, "reference_spread_nanoseconds": 10.0}
    bound = _bound().model_copy(update=spread)
    (floor,) = (
        each
        for each in bound_sentences(bound_report("net", "FP32", PLAIN, None, bound))
        if each.startswith("Noise floor")
    )
    assert "are < 0.1 % apart" in floor
    with Store(str(tmp_path / "r.db")) as store:
        client = TestClient(
            create_app(store, AccessRules(), "1.2.3", lambda: 0.0),
            base_url="http://127.0.0.1:8090",
        )
        keep_timings(store, bound, "2026-01-01T00:00:00Z", "layers")
        keep_timings(store, _bricks("fast", a=9, b=9), "2026-01-02T00:00:00Z", "layers")
        assert "are &lt; 0.1 % apart" in client.get("/layers").text
        assert "<td>none</td>" in client.get("/bricks").text


def test_timings_of_an_earlier_version_have_no_noise_floor() -> None:
    """It is not known, and none is made up."""
    report = bound_report("net", "FP32", PLAIN, None, _bound())
    assert not any(each.startswith("Noise floor") for each in bound_sentences(report))
    document = bound_document(report)
    assert set(document["noiseFloor"].values()) == {None}
    assert document["sequentialLowNanoseconds"] is None


def test_pages_show_the_noise_floor(tmp_path: Path) -> None:
    """The pages and their answers have it, and the interval of each figure."""
    with Store(str(tmp_path / "r.db")) as store:
        client = TestClient(
            create_app(store, AccessRules(), "1.2.3", lambda: 0.0),
            base_url="http://127.0.0.1:8090",
        )
        keep_timings(store, _bound(), "2026-01-01T00:00:00Z", "layers")
        assert "Noise floor" not in client.get("/layers").text
        for path, cells in (("/layers", 2), ("/bounds", 2)):
            assert client.get(path).text.count(">not known</td>") == cells
        keep_timings(store, _spread(), "2026-01-02T00:00:00Z", "layers")
        layers, bounds = (client.get(path).text for path in ("/layers", "/bounds"))
        words = "quartiles of a matrix product of 0.500 ms in the same rounds are 1.2 % apart"
        assert words.replace("0.500 ms", "500 us") in layers.replace("µs", "us")
        assert words in bounds
        for page in (layers, bounds):
            assert ">not known</td>" not in page
        (operator, *_), (bound,) = (
            client.get(f"/api/v1{path}").json() for path in ("/layers", "/bounds")
        )
        assert operator["reference_spread"] == 0.012
        assert operator["low_nanoseconds"] < operator["nanoseconds"] < operator["high_nanoseconds"]
        assert bound["low_nanoseconds"] < bound["bound_nanoseconds"] < bound["high_nanoseconds"]
        assert words in bound["noise_floor"]


def test_pages_name_the_layers_that_count_as_free(tmp_path: Path) -> None:
    """A loop has no roofline, and a layer of 0 ns no kernel: the page and its answer say which."""
    graph = layer_graph(("Loop", [0], [1]), ("Concat", [1], [2]))
    loop = graph.layers["Loop"].model_copy(update={"attributes": [{"name": "body", "g": {}}]})
    machine = MACHINE.model_copy(update={"flops_per_second": 1e9, "copy_bytes_per_second": 1e9})
    in_place = KernelTiming(key="Concat", engine="openvino", precision="", nanoseconds=0.0)
    plain = {"layout": "Plain", "layers": graph.layers | {"Loop": loop}}
    free = {
        "machine": machine,
        "kernels": [in_place],
        "graphs": [graph.model_copy(update=plain)],
    }
    with Store(str(tmp_path / "r.db")) as store:
        client = TestClient(
            create_app(store, AccessRules(), "1.2.3", lambda: 0.0),
            base_url="http://127.0.0.1:8090",
        )
        keep_timings(store, _bound(), "2026-01-01T00:00:00Z", "layers")
        assert "<small>without" not in client.get("/bounds").text
        keep_timings(store, _bound().model_copy(update=free), "2026-01-02T00:00:00Z", "layers")
        page = client.get("/bounds").text
        assert "<small>without 1 Loop</small>" in page
        assert "<small>without 1 Concat</small>" in page
        (row,) = (each for each in client.get("/api/v1/bounds").json() if each["model"] != "net")
        _ROWS["bounds"].model_validate(row, strict=True)
        assert (row["layers_without_roofline"], row["operators_without_roofline"]) == (1, "1 Loop")
        assert (row["layers_without_kernel"], row["operators_without_kernel"]) == (1, "1 Concat")


def _advisable() -> LayerTimings:
    """Return timings of variants: one thread as it is, two threads, and INT8 in half the time."""
    bound = _bound()
    variants = {
        "onnxruntime:Default:1": _variant(*range(1000, 1010)),
        "onnxruntime:Default:2": _variant(*range(600, 610)),
        "onnxruntime:Default:1:INT8": _variant(*range(500, 510)).model_copy(
            update={"precision": "INT8", "difference": 0.02}
        ),
    }
    failed = LayerFailure(
        key="onnxruntime:Default:1:Fused", engine="onnxruntime", reason="No pattern was found."
    )
    return bound.model_copy(
        update={
            "variants": variants,
            "failed": [failed],
            "present": "onnxruntime:Default:1",
        }
    )


def _result(timings: LayerTimings) -> ResultDocument:
    """Return a result whose first step has these timings."""
    result = a_result()
    first, *others = result.scenarios
    step = first.steps[0].model_copy(update={"layers": StepLayers(timings=timings)})
    scenario = first.model_copy(update={"steps": [step]})
    return result.model_copy(update={"scenarios": [scenario, *others]})


def test_advice_follows_from_the_timings_of_a_run() -> None:
    """A faster variant is a setting; a rewritten model that is gone says how to have it again."""
    (shown,) = layer_sentences(_result(_advisable()))
    sentences = shown.sentences
    (apply,) = (each for each in sentences if each.strip().startswith("Apply:"))
    assert apply.strip() == "Apply: --set spec.server.threads=2"
    assert any("Predicted gain: 39." in each for each in sentences)
    assert any("The rewritten model was not kept" in each for each in sentences)
    assert "Not measured: onnxruntime, 1 thread, Fused. No pattern was found." in sentences
    assert sum("No pattern was found." in each for each in sentences) == 1
    assert not any("Bound wrong" in each for each in sentences)
    (shown,) = layer_sentences(_result(_bound()))
    assert not any("Q1" in each for each in shown.sentences)


def test_a_report_has_a_table_of_advice() -> None:
    """Each piece is a row; without advice there is no such section."""
    page = render_report(_result(_advisable()))
    assert "<h3>Advice on net</h3>" in page
    assert "spec.server.threads=2" in page
    assert page.count("No pattern was found.") == 1
    assert "Advice on" not in render_report(_result(_bound()))
    alone = _advisable().model_copy(
        update={
            "kernels": [],
            "variants": {"onnxruntime:Default:1": _variant(*range(1000, 1010))},
        }
    )
    page = render_report(_result(alone))
    assert "No advice: nothing that was measured is faster." in page
    assert "Q1, Q4 and Q5 are not answered" in page
    assert "Benanza" not in page


def test_pages_show_what_advice_promised_and_what_it_kept(tmp_path: Path) -> None:
    """What was achieved replaces earlier advice, and stays next to what a later run gives."""
    kept = ModelAdvice(
        model="net",
        machine=MACHINE.name,
        engine="onnxruntime",
        precision="FP32",
        nanoseconds=1_000_000,
        served_nanoseconds=2_000_000,
        was_tried=True,
        advice=[
            AdvicePiece(
                question="Q3",
                title="Choice of kernels",
                sentence="<openvino> has faster kernels.",
                predicted_gain=AdviceGain(value=0.3, low=0.2, high=0.4),
                predicted_served_gain=0.15,
                achieved_gain=AdviceGain(value=0.14, low=0.13, high=0.16),
                settings=["spec.server.runtime=OpenVino"],
            )
        ],
        not_measured={"onnxruntime:Default:1:INT8": "It has no fractions."},
    )
    with Store(str(tmp_path / "r.db")) as store:
        client = TestClient(
            create_app(store, AccessRules(), "1.2.3", lambda: 0.0),
            base_url="http://127.0.0.1:8090",
        )
        assert "No advice yet" in client.get("/bounds").text
        keep_timings(store, _advisable(), "2026-01-01T00:00:00Z", "run")
        rows = client.get("/api/v1/advice").json()
        for row in rows:
            _ROWS["advice"].model_validate(row, strict=True)
        assert {each["question"] for each in rows} == {"Q1", "Q2", "Q4", "Q6"}
        assert {each["achieved_gain"] for each in rows} == {None}
        assert "Static quantisation to INT8" in client.get("/bounds").text
        keep_advice(store, kept, Origin("advise", "2026-01-02T00:00:00Z"))
        page = client.get("/bounds").text
        assert "&lt;openvino&gt; has faster kernels." in page
        assert "30.0 % (95 %: 20.0 to 40.0)" in page
        assert "14.0 % (95 %: 13.0 to 16.0)" in page
        assert "Not measured: onnxruntime, 1 thread, INT8. It has no fractions." in page
        assert "Static quantisation" not in page
        (row,) = client.get("/api/v1/advice").json()
        assert (row["predicted_served_gain"], row["achieved_gain"]) == (0.15, 0.14)
        newer = _advisable().model_copy(update={"seconds": 2.0})
        keep_timings(store, newer, "2026-01-03T00:00:00Z", "run")
        rows = client.get("/api/v1/advice").json()
        assert {(each["was_tried"], each["received_at"][:10]) for each in rows} == {
            (True, "2026-01-02"),
            (False, "2026-01-03"),
        }


def test_advice_on_a_model_of_many_layers_is_read(tmp_path: Path) -> None:
    """Its timings have more entries than a map of other documents may have."""
    many = {f"brick {number}": timing(1_000) for number in range(5_000)}
    large = _advisable().model_copy(update={"bricks": many})
    with Store(str(tmp_path / "r.db")) as store:
        keep_timings(store, large, "2026-01-01T00:00:00Z", "run")
        (source,) = advice_sources(store)
        assert source.document == large


def test_a_busy_machine_is_named_next_to_the_bound() -> None:
    """Where other processes disturbed most rounds, the latency is called too high."""
    bound = _bound()
    words = "The machine was busy: in 6 of 10 rounds"
    for rounds in (5, 6):
        busy = {
            name: each.model_copy(update={"disturbed_rounds": rounds})
            for name, each in bound.variants.items()
        }
        found = bound_report(
            "net", "FP32", PLAIN, None, bound.model_copy(update={"variants": busy})
        )
        assert any(each.startswith(words) for each in bound_sentences(found)) == (rounds == 6)
        measured = bound_document(found)["measured"]
        assert {each["disturbedRounds"] for each in measured.values()} == {rounds}


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.05, ""), (0.124, "The machine was not quiet: other processes took 12.4 % of its CPU time")],
)
def test_bricks_next_to_other_work_are_doubtful(share: float, expected: str) -> None:
    """From a twentieth of the machine's CPU time on, `bricks run` warns of it."""
    timings = _bricks("a CPU", a=1_000).model_copy(update={"other_cpu_share": share})
    assert busy_sentence(timings, None).startswith(expected)
    assert bool(busy_sentence(timings, None)) == bool(expected)


@pytest.mark.parametrize(
    ("reference_ns", "fastest_ns", "expected"),
    [
        (1_099, 1_000, ""),
        (1_124, 1_000, "The machine was slow: the same matrix product took 12.4 % longer"),
        (1_124, 0, ""),
        (0, 1_000, ""),
    ],
)
def test_bricks_of_a_slow_machine_are_doubtful(
    reference_ns: int, fastest_ns: int, expected: str
) -> None:
    """A host may slow a CPU without a process that shows; the reference of each run does."""
    timings = _bricks("a CPU", a=1_000)
    now, known = (
        timings.model_copy(update={"reference_nanoseconds": each})
        for each in (reference_ns, fastest_ns)
    )
    assert busy_sentence(now, known).startswith(expected)
    assert bool(busy_sentence(now, known)) == bool(expected)


def test_a_variant_of_another_precision_is_named() -> None:
    """It is not compared with the bound, and that is said."""
    bound = _bound()
    other = bound.variants["openvino:FP32:1"].model_copy(update={"precision": "BF16"})
    bound.variants["openvino:FP32:1"] = other
    sentences = list(bound_sentences(bound_report("net", "FP32", PLAIN, None, bound)))
    words = "openvino, FP32, 1 thread. It computed in BF16, and the bound is of FP32."
    assert f"Not compared: {words}" in sentences
    assert not any(each.startswith("Measured on openvino") for each in sentences)


def test_the_timings_of_a_result_enter_the_layer_database_once(tmp_path: Path) -> None:
    """A scenario that timed layers shows bounds, and what it timed is kept next to the result."""
    result = _result(_bound())
    (found,) = layer_sentences(result)
    assert "Sequential bound: 0.001 ms (fastest layers: 2 by onnxruntime)." in found.sentences
    content = result.model_dump_json(exclude_none=True, by_alias=True).encode()
    with Store(str(tmp_path / "r.db")) as store:
        for _ in range(2):
            store.add(content, Origin("run", "2026-01-01T00:00:00Z"), source="r")
        assert list(all_timings(store)) == [_bound()]


def test_a_server_without_timings_says_why() -> None:
    """The report shows the reason in place of bounds."""
    result = a_result()
    first, *others = result.scenarios
    step = first.steps[0].model_copy(update={"layers": StepLayers(unavailable="No layers here.")})
    timed = first.model_copy(update={"steps": [step]})
    (found,) = layer_sentences(result.model_copy(update={"scenarios": [timed, *others]}))
    assert found.sentences == ("No layers here.",)


def test_what_bricks_could_not_time_is_named() -> None:
    """A model that was refused by its address, a brick by its operators, each with the reason."""
    graph = layer_graph(("Conv", [0], [1]), ("Loop", [1], [2]), model="net")
    failures = [
        LayerFailure(key="zoo://classification/nosuch", engine="onnxruntime", reason="No model."),
        LayerFailure(key="Loop", engine="onnxruntime", reason="It reads the graph around it."),
    ]
    timings = brick_timings({"Conv": timing(1_100)}).model_copy(
        update={"graphs": [graph], "failed": failures, "other_cpu_share": 0.5}
    )
    (found,) = layer_sentences(_result(timings))
    assert found.sentences[1:] == (
        "net: at least 0.001 ms by its layers, of which 1 of 2 are known.",
        (
            "The machine was not quiet: other processes took 50.0 % of its CPU time meanwhile, "
            "which makes layers slower. Repeat the run."
        ),
        "Not timed: zoo://classification/nosuch. No model.",
        "Not timed: Loop. It reads the graph around it.",
    )
    many = timings.model_copy(update={"failed": [failures[0]] * 12})
    (found,) = layer_sentences(_result(many))
    assert found.sentences[-1] == "... and 2 others were not timed."


_ROWS: dict[str, type[BaseModel]] = {
    "layers": machine_schema.TimedOperatorRow,
    "bounds": machine_schema.BoundModelRow,
    "bricks": machine_schema.BrickRow,
    "advice": machine_schema.AdviceRow,
}


def test_pages_show_layers_bounds_and_bricks(tmp_path: Path) -> None:
    """Each page has its figures, and no name of a machine is taken for markup."""
    with Store(str(tmp_path / "r.db")) as store:
        client = TestClient(
            create_app(store, AccessRules(), "1.2.3", lambda: 0.0),
            base_url="http://127.0.0.1:8090",
        )
        for path in ("/layers", "/bounds", "/bricks"):
            assert "yet" in client.get(path).text
            empty = client.get(f"/api/v1{path}", params={"format": "csv"}).text
            assert empty.split() == [",".join(_ROWS[path[1:]].model_fields)]
        for each in (_bound(), _bricks("<slow> CPU", a=5_000, b=5_000), _bricks("fast", a=9, b=9)):
            keep_timings(store, each, "2026-01-01T00:00:00Z", "layers")
        layers, bounds, bricks = (
            client.get(path).text for path in ("/layers", "/bounds", "/bricks")
        )
        for page, name in ((layers, "layers"), (bounds, "bounds"), (bricks, "bricks")):
            assert f'href="/api/v1/{name}?format=csv"' in page
            rows = client.get(f"/api/v1/{name}").json()
            found = client.get(f"/api/v1/{name}", params={"format": "csv"})
            assert found.headers["content-type"].startswith("text/csv")
            assert len(list(csv.DictReader(found.text.splitlines()))) == len(rows) > 0
            for row in rows:
                _ROWS[name].model_validate(row, strict=True)
        slow = {"machine": "<slow> CPU"}
        machines = {each["machine"] for each in client.get("/api/v1/bricks", params=slow).json()}
        assert machines == {"<slow> CPU"}
        assert "2 kernels timed" in layers
        assert "openvino, FP32, 1 thread: 10 %" in bounds
        assert '<td class="left">FP32</td>' in bounds
        assert "&lt;slow&gt; CPU" in bricks
        assert "<slow>" not in bricks
        assert bricks.index(">fast<") < bricks.index("&lt;slow&gt;")
        assert ">fast<" not in client.get("/bricks", params={"machine": "<slow> CPU"}).text


def test_bricks_have_a_cost_where_the_processor_has_a_price(tmp_path: Path) -> None:
    """A node for 3.60 EUR an hour, 0.001 EUR a second, whose queries of 10 us follow each other."""
    prices = PriceList(currency="EUR", nodes=(NodePrice(per_hour=3.6, cpu="Fast*"),))
    with Store(str(tmp_path / "r.db")) as store:
        client = TestClient(
            create_app(store, AccessRules(), "1.2.3", lambda: 0.0, prices=prices),
            base_url="http://127.0.0.1:8090",
        )
        for name in ("Fast CPU, 2 CPUs", "Other CPU, 2 CPUs"):
            timings = _bricks(name, a=5_000, b=5_000).model_copy(update={"run_nanoseconds": 0})
            keep_timings(store, timings, "2026-01-01T00:00:00Z", "layers")
        rows = {row["machine"]: row for row in client.get("/api/v1/bricks").json()}
        seconds = rows["Fast CPU, 2 CPUs"]["nanoseconds"] * 1e-9
        assert rows["Fast CPU, 2 CPUs"]["cost_per_million"] == pytest.approx(1_000 * seconds)
        assert rows["Other CPU, 2 CPUs"]["cost_per_million"] is None
        page = client.get("/bricks").text
        assert '<th scope="col">EUR/1M</th>' in page
        assert f"<td>{significant(1_000 * seconds)}</td>" in page


def test_bricks_have_the_energy_that_a_run_reported_on_the_processor(tmp_path: Path) -> None:
    """Nothing is predicted of it: another processor, or a retracted result, has none."""
    result = a_metered_result()
    graph = GRAPH.model_copy(update={"model": "resnet50"})
    environment = result.environment
    assert environment is not None
    least = min(
        step.energy.microjoules_per_inference
        for scenario in result.scenarios
        for step in scenario.steps
        if scenario.verdict.state == "VALID"
        and step.energy.microjoules_per_inference is not None
        and step.batch_size == 1
    )
    with Store(str(tmp_path / "r.db")) as store:
        client = TestClient(
            create_app(store, AccessRules(), "1.2.3", lambda: 0.0),
            base_url="http://127.0.0.1:8090",
        )
        for name in (f"{environment.node.cpu_model}, 2 CPUs", "Other CPU, 2 CPUs"):
            timings = _bricks(name, a=5_000, b=5_000).model_copy(update={"graphs": [graph]})
            keep_timings(store, timings, "2026-01-01T00:00:00Z", "layers")
        content = result.model_dump_json(exclude_none=True, by_alias=True).encode()
        kept = store.add(content, Origin("run", "2026-01-01T00:00:00Z"), source="r")

        def energies() -> list[int | None]:
            rows = client.get("/api/v1/bricks").json()
            return [each["microjoules_per_inference"] for each in rows]

        assert sorted(energies(), key=str) == [least, None]
        assert f"<td>{energy(least)}</td>" in client.get("/bricks").text
        row = JournalRow("2026-02-01T00:00:00.000Z", "ann", "retract", "the wrong node")
        store.note(kept.id, row)
        assert energies() == [None, None]


def test_a_bound_on_a_slow_machine_is_doubtful() -> None:
    """Layers that were timed on a faster machine promise more than the model can gain."""
    now, known = (
        _bound().model_copy(update={"reference_nanoseconds": each}) for each in (1_200, 1_000)
    )
    (found,) = [
        each
        for each in bound_sentences(bound_report("net", "FP32", PLAIN, known, now))
        if "was slow" in each
    ]
    assert "took 20.0 % longer" in found
    assert found.endswith("the latency is too long by about as much. Measure again.")
    quiet = bound_sentences(bound_report("net", "FP32", PLAIN, now, now))
    assert not any("was slow" in each for each in quiet)
