"""Checks of the operator that serves a namespace: its settings, its pods, its lease."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import yaml
from pydantic import ValidationError

from inferometer_api.plan.cluster_objects import LEASE
from inferometer_api.timestamps import parse_time
from inferometer_api.wording import short_list
from inferometer_cli.preflight.check import (
    Check,
    Json,
    Unread,
    blocked,
    ok,
    unknown,
    warning,
)
from inferometer_operator.settings import Images, Settings

SELECTOR = "app.kubernetes.io/part-of=inferometer,app.kubernetes.io/component=operator"
"""Finds an operator's Deployment and settings, as the chart labels them."""
_INSTANCE = "app.kubernetes.io/instance"
_FILE = "settings.yaml"
_ABOUT = "operator"
_STALE_SECONDS = 60

ASSUMED = Settings(
    images=Images(
        serving="inferometer-serving",
        serving_gpu="inferometer-serving-gpu",
        loadgen="inferometer-loadgen",
    )
)
"""The settings to assume if no operator's settings can be read."""


@dataclass(frozen=True, slots=True)
class OperatorEvidence:
    """What operators leave in a cluster."""

    settings: Sequence[Json] | Unread
    """ConfigMaps."""
    deployments: Sequence[Json] | Unread
    leases: Sequence[Json] | Unread
    beyond: Unread | None = None
    """Why other namespaces could not be read; None if they were."""


@dataclass(frozen=True, slots=True)
class InstalledOperator:
    """An operator that may serve a namespace."""

    name: str
    """NAMESPACE/NAME of its settings' ConfigMap."""
    namespace: str
    instance: str
    """The Helm release."""
    settings: Settings | None
    """None if they cannot be understood."""


def operators(config_maps: Sequence[Json]) -> list[InstalledOperator]:
    """Return the operators whose settings were read."""
    return [
        InstalledOperator(
            name=f"{each['metadata']['namespace']}/{each['metadata']['name']}",
            namespace=each["metadata"]["namespace"],
            instance=(each["metadata"].get("labels") or {}).get(_INSTANCE, ""),
            settings=_settings(each),
        )
        for each in config_maps
        if _FILE in (each.get("data") or {})
    ]


def serving(found: Sequence[InstalledOperator], namespace: str) -> InstalledOperator | None:
    """Return the operator that serves a namespace, None if none does."""
    own = (o for o in found if o.settings is not None and o.settings.namespace == namespace)
    every = (o for o in found if o.settings is not None and o.settings.namespace is None)
    return next(own, None) or next(every, None)


def operator_checks(evidence: OperatorEvidence, namespace: str, now: datetime) -> Iterator[Check]:
    """Yield whether an operator serves the namespace and is running."""
    if isinstance(evidence.settings, Unread):
        yield unknown(_ABOUT, f"whether one serves {namespace}: {evidence.settings.why}")
        return
    found = operators(evidence.settings)
    chosen = serving(found, namespace)
    if chosen is None or chosen.settings is None:
        yield _none_serves(found, namespace, evidence.beyond)
        return
    served = chosen.settings.namespace or "every namespace"
    yield ok(_ABOUT, f"{chosen.name} serves {served}")
    yield _deployment_check(evidence.deployments, chosen)
    if (lease := _lease_check(evidence.leases, chosen, namespace, now)) is not None:
        yield lease


def queue_check(runs: Sequence[Json] | Unread, settings: Settings) -> Check:
    """Check how many runs of the namespace come first."""
    if isinstance(runs, Unread):
        return unknown("queue", f"which runs come first: {runs.why}")
    ahead = [run["metadata"]["name"] for run in runs if not _is_over(run)]
    most = settings.max_concurrent_runs
    if len(ahead) < most:
        return ok("queue", f"{len(ahead)} unfinished runs; {most} may run at a time")
    return warning(
        "queue",
        f"unfinished runs: {short_list(ahead)}; {most} may run at a time, so this run is queued",
    )


def _none_serves(
    found: Sequence[InstalledOperator], namespace: str, beyond: Unread | None
) -> Check:
    if beyond is not None:
        message = f"whether one in another namespace serves {namespace}: {beyond.why} there"
        return unknown(_ABOUT, message)
    damaged = [each.name for each in found if each.settings is None]
    if damaged:
        return unknown(
            _ABOUT,
            f"whether one serves {namespace}: the settings in {short_list(damaged)} belong to "
            "another version",
        )
    served = [each.settings.namespace or "" for each in found if each.settings is not None]
    others = f" (only {short_list(served)})" if served else ""
    return blocked(
        _ABOUT,
        f"no operator serves {namespace}{others}; install the chart, set its watchNamespace, or "
        "give a served namespace with -n",
    )


def _settings(config_map: Json) -> Settings | None:
    try:
        return Settings.model_validate(yaml.safe_load(config_map["data"][_FILE]), extra="ignore")
    except (yaml.YAMLError, ValidationError):
        return None


def _deployment_check(deployments: Sequence[Json] | Unread, chosen: InstalledOperator) -> Check:
    if isinstance(deployments, Unread):
        return unknown(_ABOUT, f"whether its pods are ready: {deployments.why}")
    own = [
        each
        for each in deployments
        if each["metadata"]["namespace"] == chosen.namespace
        and (each["metadata"].get("labels") or {}).get(_INSTANCE, "") == chosen.instance
    ]
    if not own:
        return blocked(
            _ABOUT, f"its Deployment in {chosen.namespace} is gone; install the chart again"
        )
    available = (own[0].get("status") or {}).get("availableReplicas", 0)
    name = f"{chosen.namespace}/{own[0]['metadata']['name']}"
    if not available:
        command = f"kubectl describe deployment -n {chosen.namespace} {own[0]['metadata']['name']}"
        return blocked(_ABOUT, f"no pod of {name} is available; see {command}")
    return ok(_ABOUT, f"{name} has {available} available pods")


def _lease_check(
    leases: Sequence[Json] | Unread, chosen: InstalledOperator, namespace: str, now: datetime
) -> Check | None:
    if isinstance(leases, Unread):
        return unknown(_ABOUT, f"which of its pods is the leader: {leases.why}")
    places = {chosen.namespace, namespace}
    own = [
        each
        for each in leases
        if each["metadata"]["namespace"] in places
        and each["metadata"]["name"].startswith((LEASE, chosen.instance))
    ]
    if not own:
        # With one replica and --no-lease there is no Lease.
        return None
    spec = own[0].get("spec", {})
    holder = spec.get("holderIdentity") or ""
    age = _age_seconds(spec.get("renewTime"), now)
    if not holder or age is None or age > _STALE_SECONDS:
        since = "" if age is None else f" for {age:.0f} s"
        return warning(_ABOUT, f"it has had no leader{since}; runs do not start until it has one")
    return ok(_ABOUT, f"{holder.partition('_')[0]} is the leader")


def _age_seconds(time: str | None, now: datetime) -> float | None:
    then = parse_time(time)
    return None if then is None else (now - then).total_seconds()


def _is_over(run: Json) -> bool:
    conditions = (run.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Finished" and c.get("status") == "True" for c in conditions)
