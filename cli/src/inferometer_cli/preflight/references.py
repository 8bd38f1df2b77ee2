"""May the run use what it names, and is it there?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from inferometer_api.plan.cluster_objects import ALLOW_USE_LABEL
from inferometer_api.spec.address import AddressError, address
from inferometer_api.spec.availability import unavailable
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.preflight.check import Check, Json, Unread, not_known, ok, stops
from inferometer_operator.reconcile.acceptance import is_allowed_url
from inferometer_operator.reconcile.observed import Reference
from inferometer_operator.settings import Settings


@dataclass(frozen=True, slots=True)
class Named:
    """What a run names, as it was read. Settings None: not known."""

    raw_references: Mapping[Reference, Json | Unread]
    service: Json | Unread | None = None
    """The Service of an External server; None: the run names none."""
    settings: Settings | None = None


def spec_checks(run: BenchmarkRun) -> Iterator[Check]:
    """Yield what this version cannot do of what the run asks."""
    problems = list(unavailable(run, place="Cluster"))
    for sentence in problems:
        yield stops("spec", sentence.rstrip("."))
    if not problems:
        names = ", ".join(f"{scenario.name} ({scenario.kind})" for scenario in run.spec.scenarios)
        yield ok("spec", f"{run.name} asks for what this version can do: {names}")


def reference_checks(run: BenchmarkRun, named: Named) -> Iterator[Check]:
    """Yield whether each named object is there and may be used."""
    for reference, found in named.raw_references.items():
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
    run: BenchmarkRun, reference: Reference, found: Json | Unread, settings: Settings | None
) -> Check:
    which = f"{reference.path} names the {reference.kind} {reference.name}"
    if reference.kind == "Secret" and settings is not None and not settings.allow_secrets:
        return stops("named", f"{which}, but the operator's setting allowSecrets is false")
    if isinstance(found, Unread):
        if found.absent:
            return stops("named", f"{which}, which does not exist: create it first")
        return not_known("named", f"{which}; whether it may be used: {found.why}")
    labels = found["metadata"].get("labels") or {}
    if labels.get(ALLOW_USE_LABEL) != "true":
        kind = reference.kind.lower()
        return stops(
            "named",
            f"{which}, which no run may use without its label: "
            f"kubectl label {kind} {reference.name} {ALLOW_USE_LABEL}=true",
        )
    if reference.kind == "ConfigMap" and (key := _key(run, reference)) is not None:
        keys = {**(found.get("data") or {}), **(found.get("binaryData") or {})}
        if key not in keys:
            there = ", ".join(sorted(keys)) or "none"
            return stops("named", f"{which}, which has no key {key}; its keys: {there}")
    return ok("named", f"{which}, which is there and may be used")


def _key(run: BenchmarkRun, reference: Reference) -> str | None:
    uri = dict(run.spec.data_addresses).get(reference.path)
    try:
        found = None if uri is None else address(uri)
    except AddressError:
        return None
    return found.path if found is not None and found.kind == "configmap" else None


def _url_check(url: str, settings: Settings | None) -> Check:
    if settings is None:
        return not_known("named", f"whether the operator's externalAllowList names {url}")
    if is_allowed_url(url, settings.external_allow_list):
        return ok("named", f"{url} is on the operator's externalAllowList")
    listed = ", ".join(settings.external_allow_list) or "nothing"
    return stops(
        "named",
        f"{url} is not on the operator's externalAllowList, which names {listed}: name a Service "
        "of the namespace, or ask the operator's admin",
    )


def _service_check(name: str, port: int, found: Json | Unread) -> Check:
    which = f"spec.server.external.service names the Service {name}"
    if isinstance(found, Unread):
        if found.absent:
            return stops("named", f"{which}, which does not exist: create it first")
        return not_known("named", f"{which}; whether it is there: {found.why}")
    spec = found.get("spec", {})
    if spec.get("type") == "ExternalName":
        return stops("named", f"{which} of type ExternalName, which may lead anywhere: no run may")
    ports = [each["port"] for each in spec.get("ports") or ()]
    if port not in ports:
        there = ", ".join(map(str, ports)) or "none"
        return stops("named", f"{which} and its port {port}; its ports: {there}")
    return ok("named", f"{which}, which is there with port {port}")
