"""Where is the whole result of a run kept, and is it whole?"""

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from inferometer_api.plan.cluster_objects import RESULT_FILE, RUN_UID_LABEL
from inferometer_api.results.result_transport import IncompleteError, decompressed, joined
from inferometer_api.status.run_status import ResultReference
from inferometer_cli.cluster.api import Cluster, NotThereError
from inferometer_cli.cluster.run_summary import headline
from inferometer_cli.cluster.runs import SeenRun
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.program import program_name


def read_result(cluster: Cluster, run: SeenRun) -> bytes:
    """Return the result document of a run, byte for byte as its checksum says.

    Raises RefusedError where there is none (yet), and FailedError where a part of it is gone.
    """
    kept = run.status.result
    if kept is None or not kept.config_maps:
        raise RefusedError(_nothing_kept(run))
    found: list[Mapping[str, Any] | None] = []
    for name in kept.config_maps:
        try:
            found.append(cluster.read(cluster.core_path("configmaps", name)))
        except NotThereError:
            found.append(None)
    try:
        return whole_result(found, kept, run.uid)
    except IncompleteError as gap:
        raise FailedError(
            f"The result of {run.namespace}/{run.name} is not whole: {gap} What `{program_name()} "
            f"status {run.name} -n {run.namespace}` shows of it stands all the same; measure again "
            "for the rest."
        ) from gap


def whole_result(
    config_maps: Sequence[Mapping[str, Any] | None], kept: ResultReference, uid: str
) -> bytes:
    """Return the document that ConfigMaps hold, in the order in which the status names them.

    None stands for one that is gone. Raises IncompleteError, which says what is wrong.
    """
    parts = [
        _part(config_map, name, uid)
        for config_map, name in zip(config_maps, kept.config_maps, strict=True)
    ]
    document = decompressed(joined(parts))
    digest = hashlib.sha256(document).hexdigest()
    if kept.sha256 is not None and digest != kept.sha256:
        raise IncompleteError(
            f"its sha256 is {digest}, and the status says {kept.sha256}: it was changed."
        )
    return document


def _part(config_map: Mapping[str, Any] | None, name: str, uid: str) -> bytes:
    if config_map is None:
        raise IncompleteError(f"the ConfigMap {name}, which holds a part of it, is gone.")
    labelled = (config_map.get("metadata", {}).get("labels") or {}).get(RUN_UID_LABEL)
    if labelled != uid:
        raise IncompleteError(f"the ConfigMap {name} is not this run's, but that of {labelled}.")
    text = (config_map.get("binaryData") or {}).get(RESULT_FILE)
    if text is None:
        raise IncompleteError(f"the ConfigMap {name} has no key {RESULT_FILE}.")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise IncompleteError(f"the ConfigMap {name} is damaged: {error}.") from error


def _nothing_kept(run: SeenRun) -> str:
    asked = f"{run.namespace}/{run.name} has no result"
    measured, total = len(run.status.scenarios), len(run.spec.get("scenarios", ()))
    if run.has_ended:
        summary = f" Its status holds the figures of {measured} of {total} scenarios."
        return f"{asked}: {headline(run).sentence}{summary if measured else ''}"
    look = f"`{program_name()} status {run.name} -n {run.namespace} --watch` follows it"
    phase = (run.status.phase or "not taken up by any operator").lower()
    so_far = f"; {measured} of {total} scenarios are measured" if measured else ""
    return f"{asked} yet: it is {phase}{so_far}. {look}."
