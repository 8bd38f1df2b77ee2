"""Decides which runs of a suite a stored result may stand for, and what it must be equal in."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from inferometer_api.spec.digest import spec_digest
from inferometer_api.spec.resolve import fill_defaults
from inferometer_api.spec.run import BenchmarkRun, RunSpec
from inferometer_api.suite.plan_suite import PlannedRun, SuitePlan
from inferometer_api.suite.progress import RunOutcome
from inferometer_api.suite.reuse import ReusableResult, ReuseQuery
from inferometer_operator.manifests.image_digests import image_digest_on
from inferometer_operator.manifests.load_job import load_job
from inferometer_operator.manifests.owner import Manifest, Owner
from inferometer_operator.manifests.server_job import server_job
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.settings import ServerNotAllowedError, Settings


class _NotReusableError(Exception):
    """No stored result can be shown to be equal to a run; the message says why."""


@dataclass(slots=True)
class ReuseQuestions:
    """The queries of a suite, and the runs of each in the order of the plan."""

    queries: list[ReuseQuery] = field(default_factory=list)
    runs: list[list[str]] = field(default_factory=list)
    obstacles: dict[str, int] = field(default_factory=dict)
    """Why runs are measured without a query, and how many: a sentence each."""


def lacking_for_reuse(settings: Settings) -> str:
    """Return why an operator cannot find the stored results that are equal; empty if it can."""
    lacking = []
    if settings.results is None:
        lacking.append("it has no results service (its setting results is absent)")
    if not settings.read_nodes:
        lacking.append("it may not read nodes (its setting readNodes is false)")
    if not lacking:
        return ""
    return (
        f"spec.reuse: the operator cannot find stored results: {' and '.join(lacking)}. Set "
        "results.url and readNodes=true in the chart's values, or omit reuse to measure every cell."
    )


def reuse_questions(plan: SuitePlan, settings: Settings, nodes: Sequence[Json]) -> ReuseQuestions:
    """Return what to look up before a suite begins. The anchor is always measured."""
    runs: dict[tuple[str, str], list[PlannedRun]] = defaultdict(list)
    for run in plan.runs:
        if run.role == "cell":
            runs[run.cell.key, run.block.system.name].append(run)
    found, known = ReuseQuestions(), dict[str, int]()
    for some in runs.values():
        try:
            query = _query(some[0].run, settings, nodes)
        except _NotReusableError as obstacle:
            words = str(obstacle)
            found.obstacles[words] = found.obstacles.get(words, 0) + len(some)
            continue
        # Cells whose specs are equal share the stored results: each stands for one run.
        at = known.setdefault(query.model_dump_json(), len(found.queries))
        if at == len(found.queries):
            found.queries.append(query)
            found.runs.append([])
        found.runs[at] += [run.name for run in some]
    found.queries = [
        query.model_copy(update={"most": len(names)})
        for query, names in zip(found.queries, found.runs, strict=True)
    ]
    return found


def reused_outcomes(
    questions: ReuseQuestions, results: Sequence[Sequence[ReusableResult]]
) -> dict[str, RunOutcome]:
    """Return the outcomes of the runs for which a stored result stands, by name.

    The earliest repeat takes the newest result; a result stands for one run.
    """
    return {
        name: RunOutcome("R", scenarios=tuple(result.scenarios), result=result.id)
        for names, some in zip(questions.runs, results, strict=False)
        for name, result in zip(names, some, strict=False)
    }


def _query(run: BenchmarkRun, settings: Settings, nodes: Sequence[Json]) -> ReuseQuery:
    resolved = fill_defaults(run)
    spec = resolved.spec
    try:
        obstacle = next(_changing(spec, settings), "")
    except ServerNotAllowedError as error:
        obstacle = str(error)
    if obstacle:
        raise _NotReusableError(obstacle)
    node = _only_node(spec, nodes)
    owner = Owner(run.name, "reuse", "")
    server = _pod(server_job(resolved, owner, settings))
    load = _pod(load_job(resolved, owner, settings))
    fetchers = {each["image"] for each in server.get("initContainers") or ()}
    image = server["containers"][0]["image"]
    if spec.model.sha256 is None and fetchers != {image}:
        raise _NotReusableError(
            "The image of the server does not hold the model: give spec.model.sha256."
        )
    digests = [
        _digest(image, [node], settings),
        _digest(load["containers"][0]["image"], nodes, settings),
    ]
    return ReuseQuery(
        spec_digest=spec_digest(spec),
        node=node["metadata"]["name"],
        images=sorted(digests),
        model_sha256=spec.model.sha256,
    )


def _changing(spec: RunSpec, settings: Settings) -> Iterator[str]:
    """Yield why equal specs need not measure the same."""
    if spec.server.external is not None:
        yield "An External server may have changed since a result was stored."
    elif settings.launch_of(spec).by_kserve:
        yield "KServe chooses the containers of its servers."
    elif any(
        model.sha256 is None and not (model.uri or "").startswith("zoo://")
        for model in (spec.model, *(spec.other_models or ()))
    ):
        yield "A model may have changed since a result was stored: give the sha256 of each."
    elif any(sha256 is None for sha256 in _data_checksums(spec)):
        yield "Inputs, traces or data sets may have changed: give the sha256 of each."


def _data_checksums(spec: RunSpec) -> Iterator[str | None]:
    file, manifest = spec.load.inputs.file, spec.model.manifest
    if file is not None:
        yield file.sha256
    if manifest is not None:
        yield manifest.sha256
    for each in spec.scenarios:
        if each.load_profile.data_uri is not None:
            yield each.load_profile.data_sha256


def _only_node(spec: RunSpec, nodes: Sequence[Json]) -> Json:
    """Return the one node that a run's server can be on."""
    wanted = spec.server.placement.node_selector
    found = [node for node in nodes if wanted.items() <= _labels(node).items()]
    if len(found) != 1:
        raise _NotReusableError(
            f"{len(found)} nodes match a run, and its node must be known: set spec.systems."
        )
    return found[0]


def _labels(node: Json) -> Mapping[str, str]:
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    return labels


def _digest(reference: str, nodes: Sequence[Json], settings: Settings) -> str:
    is_pulled = settings.images.pull_policy == "Always"
    found = image_digest_on(nodes, reference, is_pulled=is_pulled)
    if not found:
        what = (
            "images.pullPolicy is Always" if is_pulled else "the nodes report no one digest of it"
        )
        raise _NotReusableError(
            f"The digest of {reference} is not known, because {what}: name the image by digest."
        )
    return found


def _pod(job: Manifest) -> Manifest:
    pod: Manifest = job["spec"]["template"]["spec"]
    return pod
