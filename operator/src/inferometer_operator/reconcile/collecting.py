"""How is the result of an ended load generator fetched, completed and kept?"""

import json
from base64 import b64decode
from dataclasses import dataclass
from hashlib import sha256

from inferometer_api.children import RESULT_FILE
from inferometer_api.deadlines import KEPT_SECONDS
from inferometer_api.handover import compressed, parts, summary_of
from inferometer_api.reasons import ReasonName
from inferometer_api.result import Outcome, ResultDocument
from inferometer_api.status import ResultReference, ScenarioSummary
from inferometer_operator.manifests.owner import PARTS_ANNOTATION, Manifest
from inferometer_operator.manifests.result_maps import result_maps
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.case import Case, deleting, owner_of
from inferometer_operator.reconcile.children_faults import refused_child
from inferometer_operator.reconcile.loading import Loading
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.owned import result_maps_of, server_pods
from inferometer_operator.reconcile.plan import Target
from inferometer_operator.reconcile.times import later


@dataclass(frozen=True, slots=True)
class Collection:
    """How far the result is."""

    done: bool = True
    collect: str | None = None
    make: tuple[Manifest, ...] = ()
    delete: tuple[Target, ...] = ()
    kept: ResultReference | None = None
    scenarios: tuple[ScenarioSummary, ...] | None = None
    """What was found, where the document is there."""
    lost: ReasonName | None = None
    message: str = ""
    """Why the document is not kept."""


def collection(case: Case, load: Loading, outcome: Outcome) -> Collection:
    """Return what is to be done for the result of an ended load generator to be kept.

    `outcome` is how the run ended, which goes into the document.
    """
    collected = case.observed.collected
    if collected is None:
        return Collection(done=False, collect=load.pod_name)
    if collected.document is not None:
        return _keeping(case, _completed(case, load, collected.document, outcome))
    report = case.observed.report
    if report is not None and report.undelivered:
        # The load generator itself knows best why its log holds none.
        return Collection(lost="ResultTooLarge", message=report.undelivered)
    return Collection(lost=collected.reason, message=collected.fault)


def _keeping(case: Case, document: ResultDocument) -> Collection:
    """Return what is to be done for a document to be kept."""
    scenarios = tuple(summary_of(each) for each in document.scenarios)
    written = document.model_dump_json(exclude_none=True).encode()
    wanted = result_maps(parts(compressed(written)), owner_of(case))
    held = {name: each for name, each in result_maps_of(case).items() if not deleting(each)}
    names = [str(each["metadata"]["name"]) for each in wanted]
    if stale := _stale(wanted, held):
        return Collection(done=False, delete=stale)
    absent = tuple(each for each in wanted if each["metadata"]["name"] not in held)
    if not absent:
        digest = sha256(written).hexdigest()
        kept = ResultReference(config_maps=names, sha256=digest, bytes=len(written))
        return Collection(kept=kept, scenarios=scenarios)
    for child, refusal in case.observed.refused.items():
        kind, _, name = child.partition("/")
        if kind != "ConfigMap" or name not in names:
            continue
        found = refused_child(case, child, refusal, " with the result")
        if found.ends or case.now >= later(refusal.since, KEPT_SECONDS):
            return Collection(lost="ResultNotKept", message=found.message, scenarios=scenarios)
    return Collection(done=False, make=absent)


def _completed(
    case: Case, load: Loading, document: ResultDocument, outcome: Outcome
) -> ResultDocument:
    """Return the document with what the operator alone knows."""
    update: dict[str, object] = {"outcome": outcome}
    if document.environment is not None:
        server = next(iter(sorted(server_pods(case), key=pods.name)), None)
        found = {"server": server, "loadgen": load.pod}
        images = {name: pods.image_digest(pod) for name, pod in found.items() if pod is not None}
        model = document.environment.model
        if model.sha256 is None and server is not None:
            model = model.model_copy(update={"sha256": _fetched_sha256(server)})
        environment = document.environment.model_copy(
            update={
                "images": {**document.environment.images, **{k: v for k, v in images.items() if v}},
                "model": model,
            }
        )
        update["environment"] = environment
    return document.model_copy(update=update)


def _fetched_sha256(server: Json) -> str | None:
    """Return the checksum that the init container of a server told, None where it told none."""
    for container, is_init in pods.containers(server):
        end = pods.last_end(container)
        if is_init and end is not None and end.code == 0:
            try:
                told = json.loads(end.message)["sha256"]
            except (ValueError, TypeError, KeyError):
                continue
            return told if isinstance(told, str) and len(told) == 64 else None
    return None


def _stale(wanted: list[Manifest], held: dict[str, Json]) -> tuple[Target, ...]:
    """Return parts of another attempt: a mixture would be no document."""
    wanted_by_name = {str(each["metadata"]["name"]): each for each in wanted}
    return tuple(
        Target("ConfigMap", name, str(found["metadata"]["uid"]))
        for name, found in held.items()
        if not _same(wanted_by_name.get(name), found)
    )


def _same(wanted: Manifest | None, found: Json) -> bool:
    if wanted is None:
        return False
    told = (found["metadata"].get("annotations") or {}).get(PARTS_ANNOTATION)
    if told != wanted["metadata"]["annotations"][PARTS_ANNOTATION]:
        return False
    data = found.get("binaryData")
    return data is None or b64decode(data.get(RESULT_FILE, "")) == b64decode(
        wanted["binaryData"][RESULT_FILE]
    )
