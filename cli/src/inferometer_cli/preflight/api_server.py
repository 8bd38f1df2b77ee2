"""Does the API server fit: its version, its BenchmarkRuns, this user's rights, the namespace?"""

import re
from collections.abc import Iterator, Mapping

from inferometer_api.crd import NAME, VERSION, custom_resource_definition
from inferometer_cli.preflight.check import (
    Check,
    Json,
    Unread,
    listed,
    not_known,
    ok,
    stops,
    warning,
)
from inferometer_cli.program import program_version

LEAST_MINOR = 30
"""Of Kubernetes 1: nothing newer is used."""
ENFORCE_LABEL = "pod-security.kubernetes.io/enforce"

Right = tuple[str, str]
"""A verb and a resource."""

RIGHTS: dict[Right, str] = {
    ("create", "benchmarkruns"): "without it you can start no run",
    ("get", "benchmarkruns"): "without it you cannot see how a run stands",
    ("patch", "benchmarkruns"): "without it you cannot cancel a run",
    ("get", "configmaps"): "without it you cannot take out a result or draw its report",
}
"""What a person needs who makes a run, and for what."""


def version_check(version: Json, host: str) -> Check:
    """Return whether the API server is new enough; `version` is what /version answers."""
    told = version.get("gitVersion", "")
    found = re.match(r"v?(\d+)\.(\d+)", told)
    said = f"{host} is Kubernetes {told or 'of unknown version'}"
    if found is None:
        return not_known("API server", f"{said}, and 1.{LEAST_MINOR} is needed")
    if (int(found[1]), int(found[2])) < (1, LEAST_MINOR):
        return stops("API server", f"{said}, and 1.{LEAST_MINOR} is the oldest that will do")
    return ok("API server", said)


def definition_check(openapi: Json | Unread) -> Check:
    """Return whether the cluster knows BenchmarkRuns, with the same fields as this version.

    `openapi` is what the API server publishes of the group.
    """
    about = "BenchmarkRun"
    if isinstance(openapi, Unread):
        if openapi.absent:
            return stops(about, f"{NAME} is not installed: install the chart, or have it installed")
        return not_known(about, f"whether {NAME} is installed: {openapi.why}")
    schema = _schema(openapi)
    if schema is None:
        return stops(about, f"the cluster has {NAME}, but not in version {VERSION}")
    ours = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    known, here = set(_paths(ours)), set(_paths(schema))
    if known == here:
        return ok(about, f"{NAME} {VERSION} has the fields of this version, {program_version()}")
    differ = listed(sorted(known ^ here), 3)
    word = "has fewer" if known - here else "has more"
    return warning(
        about,
        f"{NAME} {word} fields than this version, {program_version()}: {differ}. Use command line and "
        "chart of one version",
    )


def rights_checks(rights: Mapping[Right, bool | Unread], namespace: str) -> Iterator[Check]:
    """Yield what this user may do; `rights` are the answers to what RIGHTS asks."""
    may = [f"{verb} {resource}" for (verb, resource), answer in rights.items() if answer is True]
    if may:
        yield ok("rights", f"you may {', '.join(may)} in {namespace}")
    for right, answer in rights.items():
        what = " ".join(right)
        if isinstance(answer, Unread):
            yield not_known("rights", f"whether you may {what}: {answer.why}")
        elif not answer:
            said = f"you may not {what} in {namespace}: {RIGHTS[right]}. Ask the cluster's admin"
            is_needed = right == ("create", "benchmarkruns")
            yield stops("rights", said) if is_needed else warning("rights", said)


def namespace_check(namespace: Json | Unread, name: str) -> Check:
    """Return whether the namespace is there to stay; pods of a run suit each of its levels."""
    about = "namespace"
    if isinstance(namespace, Unread):
        if namespace.absent:
            return stops(about, f"there is no namespace {name}: create it, or name another with -n")
        return not_known(about, f"whether {name} is there: {namespace.why}")
    meta = namespace["metadata"]
    if meta.get("deletionTimestamp"):
        return stops(about, f"{name} is being deleted: name another with -n")
    level = (meta.get("labels") or {}).get(ENFORCE_LABEL)
    enforced = f"enforces pod security {level}" if level else "enforces no pod security level"
    return ok(about, f"{name} {enforced}; pods of a run meet restricted")


def _schema(openapi: Json) -> Json | None:
    schemas: Mapping[str, Json] = openapi.get("components", {}).get("schemas", {})
    found = (
        schema
        for schema in schemas.values()
        for kind in schema.get("x-kubernetes-group-version-kind", ())
        if kind.get("kind") == "BenchmarkRun" and kind.get("version") == VERSION
    )
    return next(found, None)


def _paths(schema: Json, path: str = "") -> Iterator[str]:
    """Yield the paths of all fields below spec and status."""
    for name, each in schema.get("properties", {}).items():
        if not path and name not in {"spec", "status"}:
            continue
        below = f"{path}.{name}" if path else name
        yield below
        yield from _paths(each, below)
    if "items" in schema:
        yield from _paths(schema["items"], f"{path}[]")
