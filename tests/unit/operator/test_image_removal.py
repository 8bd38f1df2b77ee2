"""Cold starts without image: who may have them, and what happens on the node before each."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from typing_extensions import override

from inferometer_api.nodes.image_removal import REMOVAL_PATH
from inferometer_api.plan.cluster_objects import COMPONENT_LABEL, PULL_ANNOTATION
from inferometer_api.status.run_status import RunStatus
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.image_removal import ImageRemovalClient
from inferometer_operator.cluster.loadgen_client import LoadgenClient
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.manifests.owner import Manifest
from inferometer_operator.manifests.server_job import server_job
from inferometer_operator.reconcile.observed import NOT_REMOVED, Json
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.settings import Agents
from inferometer_operator.wiring.event_reads import read_pulls
from inferometer_operator.wiring.plan_executor import PlanExecutor, Refusals
from support.condition_rows import a_cluster
from support.manifests import OWNER, PLAIN, read
from support.pretend_cluster import SETTINGS, PretendCluster
from support.runs import a_run

COLD = [{"name": "cold", "coldStart": {"repeats": 2, "state": "Nothing"}}]
ON_NODE = {"placement": {"nodeSelector": {"kubernetes.io/hostname": "node1"}}}
_AGENTS = Agents.model_validate({"namespace": "agents", "imageRemovalTokenFile": "unused"})
_NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def _job(repeat: int = 1) -> dict[str, Any]:
    return server_job(read(a_run(scenarios=COLD, server=ON_NODE)), OWNER, PLAIN, repeat=repeat)


def _cluster(settings: dict[str, Any]) -> PretendCluster:
    changed = SETTINGS.model_copy(update=settings)
    return a_cluster({"scenarios": COLD, "server": ON_NODE}, settings=changed).settle()


@pytest.mark.parametrize("repeat", [1, 2])
def test_the_job_of_each_repeat_names_the_node_that_is_to_pull(repeat: int) -> None:
    """No other Job does."""
    assert _job(repeat)["metadata"]["annotations"] == {PULL_ANNOTATION: "node1"}
    other = server_job(read(a_run(server=ON_NODE)), OWNER, PLAIN)
    assert "annotations" not in other["metadata"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "needs the agent chart with coldStart.allowImageRemoval: true"),
        ({"agent": Agents(namespace="agents")}, "agent.imageRemoval in the operator's chart"),
    ],
)
def test_it_is_refused_if_the_settings_do_not_allow_it(
    settings: dict[str, Any], words: str
) -> None:
    """The message names both values."""
    cluster = _cluster(settings)
    assert cluster.says("Accepted") == ("False", "NotAvailable")
    assert words in cluster.message("Accepted")


def test_it_is_refused_if_no_node_may_pull() -> None:
    """No pod would find its image again."""
    images = SETTINGS.images.model_copy(update={"pull_policy": "Never"})
    cluster = _cluster({"agent": _AGENTS, "images": images})
    assert cluster.says("Accepted") == ("False", "NotAvailable")
    assert "images.pullPolicy is Never" in cluster.message("Accepted")


def test_it_is_accepted_if_the_settings_allow_it() -> None:
    """The server's Job is then created."""
    cluster = _cluster({"agent": _AGENTS})
    assert cluster.says("Accepted") == ("True", "Accepted")
    assert PULL_ANNOTATION in cluster.children["Job/a-run-server"]["metadata"]["annotations"]


class _Node:
    """An image remover that answers each request in the same way."""

    def __init__(self, status: int, answer: dict[str, Any]) -> None:
        self._status, self._answer = status, answer
        self.seen: list[tuple[str, Any]] = []

    async def take(self, request: web.Request) -> web.Response:
        """Answer one removal."""
        self.seen.append((request.headers["Authorization"], await request.json()))
        return web.json_response(self._answer, status=self._status)


class _Connection(ApiConnection):
    """Lists the endpoint of an image remover on node1, and takes what is created."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.created: list[Any] = []

    @override
    async def request(self, method: str, path: str, **more: Any) -> Any:
        if method != "GET":
            self.created.append(more["body"])
            return more["body"]
        assert "/namespaces/agents/endpointslices" in path
        assert "inferometer-agent-images" in more["query"]["labelSelector"]
        endpoint = {"addresses": ["127.0.0.1"], "nodeName": "node1"}
        slice_ = {
            "metadata": {"name": "a"},
            "addressType": "IPv4",
            "endpoints": [endpoint],
            "ports": [{"name": "http", "port": self._port}],
        }
        return {"items": [slice_]}


async def _create(node: _Node, folder: Path, job: Manifest) -> tuple[_Connection, Refusals]:
    """Create a Job with an image remover on node1."""
    token = folder / "token"
    token.write_text("of-the-operator\n")
    application = web.Application()
    application.router.add_post(REMOVAL_PATH, node.take)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    connection, refusals = _Connection(runner.addresses[0][1]), Refusals()
    reader = Reader(connection)
    async with aiohttp.ClientSession() as session:
        images = ImageRemovalClient(session, reader, _AGENTS, token)
        loadgen = cast("LoadgenClient", None)
        executor = PlanExecutor(reader, Writer(connection, "x"), loadgen, lambda: _NOW, images)
        run = {"metadata": {"name": "a-run", "namespace": "team", "uid": OWNER.uid}}
        await executor.create_children(run, Plan(RunStatus(), create=(job,)), refusals)
    await runner.cleanup()
    return connection, refusals


def test_the_images_are_removed_before_the_job_is_created(tmp_path: Path) -> None:
    """Those of all containers, each once, with the operator's token."""
    node = _Node(200, {"removed": ["r/serving:1"]})
    connection, refusals = asyncio.run(_create(node, tmp_path, _job()))
    assert node.seen == [("Bearer of-the-operator", {"images": ["r/serving:1"]})]
    assert len(connection.created) == 1
    assert refusals.by_child == {}


@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [
        (
            409,
            {"error": "The pod team/a uses r/serving:1."},
            "node1: The pod team/a uses r/serving:1",
        ),
        (200, {"removed": []}, "it answers otherwise"),
    ],
)
def test_no_job_is_created_while_an_image_is_there(
    status: int, answer: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """The refusal has the node's words, and is repeated later."""
    connection, refusals = asyncio.run(_create(_Node(status, answer), tmp_path, _job()))
    assert connection.created == []
    refusal = refusals.by_child["Job/a-run-server"]
    assert refusal.reason == NOT_REMOVED
    assert words in refusal.message
    assert refusals.next_seconds(_NOW) == 2.0


def test_a_node_without_image_remover_is_named(tmp_path: Path) -> None:
    """Its chart may not allow the removal."""
    job = _job()
    job["metadata"]["annotations"][PULL_ANNOTATION] = "node2"
    node = _Node(200, {})
    connection, refusals = asyncio.run(_create(node, tmp_path, job))
    assert (node.seen, connection.created) == ([], [])
    assert "no image remover is ready there" in refusals.by_child["Job/a-run-server"].message


def test_other_jobs_remove_nothing(tmp_path: Path) -> None:
    """Without the annotation."""
    node, job = _Node(200, {}), _job()
    del job["metadata"]["annotations"]
    connection, _ = asyncio.run(_create(node, tmp_path, job))
    assert node.seen == []
    assert len(connection.created) == 1


class _Events:
    """Notes the pods whose Events are read."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def list_pulls(self, namespace: str, uid: str) -> tuple[Json, ...]:
        """Return an Event."""
        self.seen.append(f"{namespace}/{uid}")
        return ({"reason": "Pulled"},)


@pytest.mark.parametrize(
    ("scenario", "seen"),
    [
        ({"coldStart": {"state": "Nothing"}}, ["team/b"]),
        ({"coldStart": {"state": "ImagePresent"}}, ["team/b"]),
        ({"coldStart": {}}, ["team/b"]),
        ({"singleStream": {}}, []),
    ],
)
def test_events_of_pulls_are_read_for_ready_servers_that_start_cold(
    scenario: Json, seen: list[str]
) -> None:
    """They show whether the image was there; no other run reads them."""
    run = {"metadata": {"namespace": "team"}, "spec": {"scenarios": [scenario]}}
    pods = tuple(
        {
            "metadata": {"uid": uid, "labels": {COMPONENT_LABEL: component}},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }
        for uid, component, ready in (
            ("a", "server", "False"),
            ("b", "server", "True"),
            ("c", "loadgen", "True"),
        )
    )
    events = _Events()
    found = asyncio.run(read_pulls(cast("Reader", events), run, pods))
    assert events.seen == seen
    assert len(found) == len(seen)
