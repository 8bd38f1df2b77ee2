"""Downloading a result from the ConfigMaps of its run, with its checksum verified."""

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from inferometer_api.plan.cluster_objects import RESULT_FILE, RUN_UID_LABEL
from inferometer_api.results.gzip_members import IncompleteError, decompress
from inferometer_api.status.run_status import ExportedResult, ResultReference
from inferometer_api.wording import as_sentence
from inferometer_cli.cluster.api import Cluster, NotThereError
from inferometer_cli.cluster.results_service import ResultsService
from inferometer_cli.cluster.run_summary import headline
from inferometer_cli.cluster.runs import SeenRun
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.program import program_name


def download_result(cluster: Cluster, run: SeenRun) -> bytes:
    """Return the result document of a run, verified against its checksum.

    Raises RefusedError if there is none (yet) or it is only exported, and FailedError if a part of
    it is missing.
    """
    reference = run.status.result
    if reference is not None and reference.stored is not None:
        return _stored_result(cluster, reference, reference.stored.id)
    if reference is not None and not reference.config_maps and reference.exported is not None:
        raise RefusedError(_only_exported(run, reference.exported))
    if reference is None or not reference.config_maps:
        raise RefusedError(_no_result(run))
    found: list[Mapping[str, Any] | None] = []
    for name in reference.config_maps:
        try:
            found.append(cluster.read(cluster.core_path("configmaps", name)))
        except NotThereError:
            found.append(None)
    try:
        return whole_result(found, reference, run.uid)
    except IncompleteError as gap:
        rest = "measure again for the rest."
        if reference.exported is not None:
            rest = f"the whole result was exported to {reference.exported.uri}."
        raise FailedError(
            f"The result of {run.namespace}/{run.name} is incomplete: {gap} The summary in "
            f"`{program_name()} status {run.name} -n {run.namespace}` is still valid; {rest}"
        ) from gap


def _stored_result(cluster: Cluster, reference: ResultReference, id_: str) -> bytes:
    document = ResultsService(cluster).document(id_)
    digest = hashlib.sha256(document).hexdigest()
    if reference.sha256 is not None and digest != reference.sha256:
        raise FailedError(
            f"The results service has another document as result {id_}: its sha256 is {digest}, "
            f"but the status says {reference.sha256}."
        )
    return document


def whole_result(
    config_maps: Sequence[Mapping[str, Any] | None], reference: ResultReference, uid: str
) -> bytes:
    """Return the document that ConfigMaps hold, in the order in which the status lists them.

    None stands for a missing one. Raises IncompleteError, which says what is wrong.
    """
    parts = [
        _part(config_map, name, uid)
        for config_map, name in zip(config_maps, reference.config_maps, strict=True)
    ]
    document = bytes(decompress(b"".join(parts)))
    digest = hashlib.sha256(document).hexdigest()
    if reference.sha256 is not None and digest != reference.sha256:
        raise IncompleteError(
            f"its sha256 is {digest}, but the status says {reference.sha256}; it was modified."
        )
    return document


def _part(config_map: Mapping[str, Any] | None, name: str, uid: str) -> bytes:
    if config_map is None:
        raise IncompleteError(f"ConfigMap {name}, which holds a part of it, does not exist.")
    labelled = (config_map.get("metadata", {}).get("labels") or {}).get(RUN_UID_LABEL)
    if labelled != uid:
        raise IncompleteError(f"ConfigMap {name} belongs to another run, {labelled}.")
    text = (config_map.get("binaryData") or {}).get(RESULT_FILE)
    if text is None:
        raise IncompleteError(f"ConfigMap {name} has no key {RESULT_FILE}.")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise IncompleteError(f"ConfigMap {name} is damaged: {error}.") from error


def _only_exported(run: SeenRun, exported: ExportedResult) -> str:
    return (
        f"The result of {run.namespace}/{run.name} is not in the cluster: it was exported to "
        f"{exported.uri} ({exported.bytes} bytes, sha256 {exported.sha256}). Copy it from there "
        f"and show it with `{program_name()} report FILE`."
    )


def _no_result(run: SeenRun) -> str:
    which = f"{run.namespace}/{run.name}"
    measured, total = len(run.status.scenarios), len(run.spec.get("scenarios", ()))
    look = f"`{program_name()} status {run.name} -n {run.namespace}"
    if not run.has_ended:
        phase = (run.status.phase or "not accepted by any operator").lower()
        so_far = f"; {measured} of {total} scenarios are measured" if measured else ""
        return f"{which} has no result yet: it is {phase}{so_far}. Follow it with {look} --watch`."
    finished = run.condition("Finished")
    if finished is None or finished.status != "True":
        words = "It is being read." if finished is None else as_sentence(finished.message)
        return f"The result of {which} cannot be downloaded yet. {words} Follow it with {look}`."
    if not measured:
        return f"{which} has no result: {headline(run).sentence}"
    return (
        f"The result of {which} was not kept. {as_sentence(finished.message)} {look}` shows the "
        f"figures of {measured} of {total} scenarios."
    )
