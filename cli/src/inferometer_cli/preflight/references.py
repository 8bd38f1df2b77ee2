"""Checks of the objects that a run names: they exist, and runs may use them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from inferometer_api.plan.availability import unavailable
from inferometer_api.plan.cluster_objects import ALLOW_USE_LABEL
from inferometer_api.spec.address import AddressError, address
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.preflight.check import Check, Json, Unread, blocked, ok, unknown
from inferometer_operator.reconcile.acceptance import is_allowed_url
from inferometer_operator.reconcile.ceilings import beyond_ceilings
from inferometer_operator.reconcile.external_service import missing_port
from inferometer_operator.reconcile.observed import ObjectReference
from inferometer_operator.settings import Settings


@dataclass(frozen=True, slots=True)
class Named:
    """The objects that a run names, as they were read. Settings are None if unknown."""

    references: Mapping[ObjectReference, Json | Unread]
    service: Json | Unread | None = None
    """The Service of an External server; None if the run names none."""
    settings: Settings | None = None


def spec_checks(run: BenchmarkRun) -> Iterator[Check]:
    """Yield what the run requires that this version cannot do."""
    problems = list(unavailable(run, place="Cluster"))
    for sentence in problems:
        yield blocked("spec", sentence.rstrip("."))
    if not problems:
        names = ", ".join(f"{scenario.name} ({scenario.kind})" for scenario in run.spec.scenarios)
        yield ok("spec", f"this version supports {run.name}: {names}")


def ceiling_checks(run: BenchmarkRun, settings: Settings | None) -> Iterator[Check]:
    """Yield each ceiling of the operator's settings that the run is beyond."""
    if settings is not None:
        for sentence in beyond_ceilings(run, settings):
            yield blocked("ceilings", sentence.rstrip("."))


def reference_checks(run: BenchmarkRun, named: Named) -> Iterator[Check]:
    """Yield whether each named object exists and may be used."""
    for reference, found in named.references.items():
        yield _reference_check(run, reference, found, named.settings)
    external = run.spec.server.external
    if external is None:
        return
    if external.url is not None:
        yield _url_check(external.url, named.settings)
    elif external.service is not None and named.service is not None:
        target = external.service
        yield _service_check(target.name, target.port, named.service)


def _reference_check(
    run: BenchmarkRun, reference: ObjectReference, found: Json | Unread, settings: Settings | None
) -> Check:
    which = f"{reference.path} names the {reference.kind} {reference.name}"
    if reference.kind == "Secret" and settings is not None and not settings.allow_secrets:
        return blocked("named", f"{which}, but the operator's setting allowSecrets is false")
    if isinstance(found, Unread):
        if found.absent:
            return blocked("named", f"{which}, which does not exist; create it first")
        return unknown("named", f"{which}; whether it may be used: {found.why}")
    labels = found["metadata"].get("labels") or {}
    label = labels.get(ALLOW_USE_LABEL)
    if label != reference.use:
        kind = reference.kind.lower()
        replacing = "" if label is None else " --overwrite"
        return blocked(
            "named",
            f"{which}, which lacks the label that permits it; run "
            f"kubectl label {kind} {reference.name} {ALLOW_USE_LABEL}={reference.use}{replacing}",
        )
    if reference.kind == "ConfigMap" and (key := _key(run, reference)) is not None:
        keys = {**(found.get("data") or {}), **(found.get("binaryData") or {})}
        if key not in keys:
            present = ", ".join(sorted(keys)) or "none"
            return blocked("named", f"{which}, which has no key {key}; its keys are: {present}")
    return ok("named", f"{which}, which exists and may be used")


def _key(run: BenchmarkRun, reference: ObjectReference) -> str | None:
    uri = dict(run.spec.data_addresses).get(reference.path)
    try:
        found = None if uri is None else address(uri)
    except AddressError:
        return None
    return found.path if found is not None and found.kind == "configmap" else None


def _url_check(url: str, settings: Settings | None) -> Check:
    if settings is None:
        return unknown("named", f"whether the operator's externalAllowList names {url}")
    if is_allowed_url(url, settings.external_allow_list):
        return ok("named", f"{url} is on the operator's externalAllowList")
    listed = ", ".join(settings.external_allow_list) or "nothing"
    return blocked(
        "named",
        f"{url} is not on the operator's externalAllowList ({listed}); name a Service of the "
        "namespace, or ask the operator's administrator",
    )


def _service_check(name: str, port: int, found: Json | Unread) -> Check:
    which = f"spec.server.external.service names the Service {name}"
    if isinstance(found, Unread):
        if found.absent:
            return blocked("named", f"{which}, which does not exist; create it first")
        return unknown("named", f"{which}; whether it exists: {found.why}")
    return _usable_service_check(which, port, found)


def _usable_service_check(which: str, port: int, found: Json) -> Check:
    spec = found.get("spec", {})
    if spec.get("type") == "ExternalName":
        return blocked(
            "named", f"{which}, but runs may not use the type ExternalName, which leads anywhere"
        )
    if missing := missing_port(found, port):
        return blocked("named", f"{which}. {missing.rstrip('.')}")
    if not spec.get("selector"):
        return unknown(
            "named",
            f"{which}, which has no selector; whether its EndpointSlices name its pods",
        )
    if spec.get("clusterIP") == "None":
        return ok("named", f"{which}, which exists and is headless: its pods must have port {port}")
    return ok("named", f"{which}, which exists and has port {port}")
