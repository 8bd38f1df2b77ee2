"""The machine of the servers is theirs, not that of the load generator."""

import json
from typing import Any

import pytest

from inferometer_api.results.reading import read_result
from inferometer_api.results.result import ResultDocument
from inferometer_cli.local.suite.folder import machine_of
from inferometer_results.explore.prices import nodes_of, read_prices
from inferometer_results.store.comparability import comparability_key, differing
from inferometer_results.store.index_rows import index_rows
from inferometer_results.store.server_machine import ServerMachine, server_machine
from inferometer_results.suites.stored_suites import machine
from support.stored_results import CLUSTER, LOCAL, ORIGIN

FACTS = {
    "cpu_model": "Xeon",
    "cpu_count": "64",
    "memory_gibibytes": "256",
    "instruction_set": "avx512f",
    "kernel": "6.1.2-cloud",
}
KNOWN = ServerMachine(("node-8",), "Xeon", "64 CPUs", "256 GiB", "avx512f", "Linux 6.1")


def a_document(
    *nodes: str,
    settings: dict[str, str] | None = None,
    telemetry: dict[str, int] | None = None,
    device: str = "CPU",
) -> ResultDocument:
    """Return a result whose load generator ran on node-7, and its servers on these."""
    found: dict[str, Any] = json.loads(json.dumps(CLUSTER))
    server = found["environment"]["server"]
    server["settings"] = settings or {}
    (replica,) = server["replicas"]
    server["replicas"] = [replica | {"node": node} for node in nodes]
    found["environment"]["node"]["gpus"] = ["GPU of the load"]
    found["run"]["spec"]["server"] |= {"runtime": "Triton", "device": device, "external": None}
    for node, count in (telemetry or {}).items():
        step = found["scenarios"][0]["steps"][0]
        step["telemetry"].append({"node": node, "cpuCount": count, "samples": []})
    return read_result(json.dumps(found), source="a document").document


def row_of(document: ResultDocument) -> dict[str, Any]:
    """Return its row in the store."""
    read = read_result(document.model_dump_json(by_alias=True), source="a document")
    return index_rows("id", 1, read, ORIGIN, []).result


def test_a_server_knows_its_machine() -> None:
    """The built-in one reports it."""
    assert server_machine(a_document("node-8", settings=FACTS)) == KNOWN


def test_machines_of_replicas_that_differ_are_all_named() -> None:
    """Their settings are kept if they differ from those of the first."""
    document = a_document("node-8", "node-9", settings=FACTS)
    assert document.environment is not None
    document.environment.server.replicas[1].settings["cpu_model"] = "EPYC"
    found = server_machine(document)
    assert (found.nodes, found.cpu, found.cpus) == (("node-8", "node-9"), "EPYC, Xeon", "64 CPUs")


def test_the_load_generators_machine_is_that_of_servers_on_its_node() -> None:
    """And of a local run."""
    found = server_machine(a_document("node-7"))
    node = CLUSTER["environment"]["node"]
    assert (found.nodes, found.cpu) == (("node-7",), node["cpuModel"])
    assert found.gpus == ("GPU of the load",)
    assert "unknown" not in found.text
    local = server_machine(read_result(json.dumps(LOCAL), source="x").document)
    assert local.nodes == (LOCAL["environment"]["node"]["hostname"],)
    assert "unknown" not in local.text


@pytest.mark.parametrize("nodes", [("node-8",), ("node-7", "node-8"), ("",), ()])
def test_a_machine_apart_from_the_load_generators_is_not_taken_for_it(
    nodes: tuple[str, ...],
) -> None:
    """Neither if only some servers run on its node, nor if their nodes are unknown."""
    found = server_machine(a_document(*nodes))
    assert (found.cpu, found.cpus, found.memory, found.kernel, found.gpus) == ("", "", "", "", ())
    assert found.nodes == tuple(filter(None, nodes))
    names = " and ".join(found.nodes) or "its node"
    assert found.text == f"unknown CPU and number of CPUs and memory and kernel of {names}"


def test_agents_know_the_number_of_cpus() -> None:
    """If each node of a server has one."""
    agents = {"node-7": 2, "node-8": 64}
    assert server_machine(a_document("node-8", telemetry=agents)).cpus == "64 CPUs"
    assert not server_machine(a_document("node-8", "node-9", telemetry=agents)).cpus


def test_servers_on_unknown_machines_are_not_compared_unnamed() -> None:
    """The load generator ran on one machine; the servers did not."""
    one, other = (a_document(node, device="GPU") for node in ("node-a100", "node-t4"))
    keys = [comparability_key(each, "s0") for each in (one, other)]
    assert set(differing(*keys)) == {"node class"}
    assert "GPU of node-a100" in keys[0]["node class"]


def test_two_known_machines_of_one_class_are_comparable() -> None:
    """Whatever their names."""
    keys = [
        comparability_key(a_document(each, settings=FACTS), "s0") for each in ("node-8", "node-9")
    ]
    assert not differing(*keys)


def test_rows_prices_and_suites_share_the_servers_machine() -> None:
    """An entry of a price list for its GPU matches; one for the load generator's does not."""
    settings = FACTS | {"gpus": "NVIDIA A100-SXM4-80GB"}
    document = a_document("node-8", settings=settings, device="GPU")
    row = row_of(document)
    found = ("node-8", "Xeon", "NVIDIA A100-SXM4-80GB")
    assert (row["node"], row["cpu"], row["gpu"]) == found
    nodes = nodes_of(document)
    assert (nodes.names, nodes.cpu, nodes.gpu) == (("node-8",), *found[1:])
    prices = read_prices(
        "{currency: EUR, nodes: [{gpu: '*load*', perHour: 1}, {gpu: '*A100*', perHour: 2}]}", "x"
    )
    assert prices.per_hour(nodes) == 2
    assert machine(row) == machine_of(document) == "Xeon NVIDIA A100-SXM4-80GB"
