"""Checks of the API server: its version, its BenchmarkRuns, the user's rights, the namespace."""

import re
from collections.abc import Iterator, Mapping

from inferometer_api.crd import NAME, VERSION, custom_resource_definition
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
from inferometer_cli.program import program_version

LEAST_MINOR = 30
"""The oldest supported minor version of Kubernetes 1."""
ENFORCE_LABEL = "pod-security.kubernetes.io/enforce"

Right = tuple[str, str]
"""A verb and a resource."""

RIGHTS: dict[Right, str] = {
    ("create", "benchmarkruns"): "you need it to start a run",
    ("get", "benchmarkruns"): "you need it to see the state of a run",
    ("patch", "benchmarkruns"): "you need it to cancel a run",
    ("get", "configmaps"): "you need it to download a result and to write its report",
}
"""The rights that the author of a run needs, and for what."""


def version_check(version: Json, host: str) -> Check:
    """Check that the API server is new enough; `version` is its answer to /version."""
    git_version = version.get("gitVersion", "")
    found = re.match(r"v?(\d+)\.(\d+)", git_version)
    message = f"{host} runs Kubernetes {git_version or 'of unknown version'}"
    if found is None:
        return unknown("API server", f"{message}; 1.{LEAST_MINOR} or later is required")
    if (int(found[1]), int(found[2])) < (1, LEAST_MINOR):
        return blocked("API server", f"{message}; 1.{LEAST_MINOR} or later is required")
    return ok("API server", message)


def definition_check(openapi: Json | Unread) -> Check:
    """Check that the cluster has BenchmarkRuns with the same fields as this version.

    `openapi` is what the API server publishes for the API group.
    """
    about = "BenchmarkRun"
    if isinstance(openapi, Unread):
        if openapi.absent:
            return blocked(about, f"{NAME} is not installed; install the chart")
        return unknown(about, f"whether {NAME} is installed: {openapi.why}")
    schema = _schema(openapi)
    if schema is None:
        return blocked(about, f"the cluster has {NAME}, but not version {VERSION}")
    ours = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    known, here = set(_paths(ours)), set(_paths(schema))
    if known == here:
        return ok(about, f"{NAME} {VERSION} has the fields of this version, {program_version()}")
    differ = short_list(sorted(known ^ here), 3)
    word = "has fewer" if known - here else "has more"
    return warning(
        about,
        f"{NAME} {word} fields than this version, {program_version()}: {differ}. Use the same "
        "version of the command line and the chart",
    )


def rights_checks(rights: Mapping[Right, bool | Unread], namespace: str) -> Iterator[Check]:
    """Yield what this user may do; `rights` has an answer for each key of RIGHTS."""
    may = [f"{verb} {resource}" for (verb, resource), answer in rights.items() if answer is True]
    if may:
        yield ok("rights", f"you may {', '.join(may)} in {namespace}")
    for right, answer in rights.items():
        what = " ".join(right)
        if isinstance(answer, Unread):
            yield unknown("rights", f"whether you may {what}: {answer.why}")
        elif not answer:
            message = (
                f"you may not {what} in {namespace}; {RIGHTS[right]}. Ask the cluster's "
                "administrator"
            )
            is_needed = right == ("create", "benchmarkruns")
            yield blocked("rights", message) if is_needed else warning("rights", message)


def namespace_check(namespace: Json | Unread, name: str) -> Check:
    """Check that the namespace exists; a run's pods meet every pod security level."""
    about = "namespace"
    if isinstance(namespace, Unread):
        if namespace.absent:
            return blocked(
                about, f"{name} does not exist; create it, or give another namespace with -n"
            )
        return unknown(about, f"whether {name} exists: {namespace.why}")
    meta = namespace["metadata"]
    if meta.get("deletionTimestamp"):
        return blocked(about, f"{name} is being deleted; give another namespace with -n")
    level = (meta.get("labels") or {}).get(ENFORCE_LABEL)
    enforced = f"enforces pod security {level}" if level else "enforces no pod security level"
    return ok(about, f"{name} {enforced}; the pods of a run comply with restricted")


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
