"""May a run be carried out: is its spec valid, can this version do it, and is it allowed?"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from inferometer_api.plan.cluster_objects import ALLOW_USE_LABEL, DEFAULT_PORTS
from inferometer_api.plan.deadlines import APPEARS_SECONDS
from inferometer_api.rules import spelt
from inferometer_api.spec.availability import unavailable
from inferometer_api.spec.problems import Problem, told
from inferometer_api.spec.resolve import resolved
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.status.condition_reasons import REASONS, ReasonName
from inferometer_operator.reconcile.case import Case, created
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.references import references_of
from inferometer_operator.reconcile.serving import leads_anywhere
from inferometer_operator.reconcile.times import later

_METADATA = ("name", "namespace", "labels", "uid", "generation", "creationTimestamp")
"""What a run's metadata says of it; the rest is the API server's business, and may be large."""


@dataclass(frozen=True, slots=True)
class NotAccepted:
    """Why a run is not carried out."""

    reason: ReasonName
    message: str
    may_appear: bool = False
    """Whether what is missing may only be late."""


def parsed(raw: Json) -> BenchmarkRun | NotAccepted:
    """Return the run of a raw object with every default filled in, or all that is wrong with it."""
    metadata = raw["metadata"]
    data: dict[str, Any] = {
        "apiVersion": raw.get("apiVersion"),
        "kind": raw.get("kind"),
        "metadata": {name: metadata[name] for name in _METADATA if name in metadata},
        "spec": raw.get("spec"),
    }
    try:
        return resolved(BenchmarkRun.model_validate(data, by_alias=True, by_name=False))
    except ValidationError as error:
        problems = [
            str(Problem(spelt(where), message))
            for where, message in dict.fromkeys(told(error, data))
        ]
        return _refusal("InvalidSpec", problems)


def not_accepted(case: Case) -> NotAccepted | None:
    """Return why a valid run is not carried out here, None where it is."""
    if sentences := list(unavailable(case.run, place="Cluster")):
        return _refusal("NotAvailable", sentences)
    if sentences := [*_forbidden_secrets(case), *_forbidden_targets(case), *_unlabelled(case)]:
        return _refusal("NotAllowed", sentences)
    if sentences := list(_missing(case)):
        made = created(case.raw) or case.now
        refusal = _refusal("NotFound", sentences)
        late = case.now < later(made, APPEARS_SECONDS)
        return NotAccepted(refusal.reason, refusal.message, may_appear=late)
    return None


def _refusal(reason: ReasonName, sentences: list[str]) -> NotAccepted:
    many = f"{len(sentences)} things are wrong. " if len(sentences) > 1 else ""
    return NotAccepted(reason, f"{many}{' '.join(sentences)} {REASONS[reason].remedy}")


def _forbidden_secrets(case: Case) -> Iterator[str]:
    if case.settings.allow_secrets:
        return
    for each in references_of(case.run):
        if each.kind == "Secret":
            yield (
                f"{each.path}: the Secret {each.name} was asked for, but the operator lets no run "
                "name Secrets (its setting allowSecrets is false)."
            )


def _forbidden_targets(case: Case) -> Iterator[str]:
    external = case.run.spec.server.external
    if external is None:
        return
    if external.url is not None and not allowed(external.url, case.settings.external_allow_list):
        listed = ", ".join(case.settings.external_allow_list) or "nothing"
        yield (
            f"spec.server.external.url: {external.url} is not on the operator's list of External "
            f"servers (its setting externalAllowList names {listed}); name a Service of the run's "
            "namespace instead."
        )
    service = case.observed.service
    if external.service is not None and leads_anywhere(service):
        yield (
            f"spec.server.external.service: {external.service.name} is a Service of type "
            "ExternalName, which may lead anywhere; name one with pods behind it."
        )


def allowed(url: str, allow_list: list[str]) -> bool:
    """Whether an operator's list names a URL's host: "HOST:PORT", "HOST" or "*.SUFFIX"."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
        port = DEFAULT_PORTS[parts.scheme] if port is None else port
    except (ValueError, KeyError):
        return False
    return any(_matches(host, port, entry.lower()) for entry in allow_list)


def _matches(host: str, port: int, entry: str) -> bool:
    name, colon, number = entry.rpartition(":")
    if colon and number.isdecimal() and not name.endswith(":"):
        return int(number) == port and _matches(host, port, name)
    entry = entry.strip("[]")
    if entry.startswith("*."):
        return host.endswith(entry[1:]) and len(host) > len(entry) - 1
    return host == entry


def _unlabelled(case: Case) -> Iterator[str]:
    for each in references_of(case.run):
        found = case.observed.references.get(each)
        if found is not None and (found.get("labels") or {}).get(ALLOW_USE_LABEL) != "true":
            yield (
                f"{each.path}: the {each.kind} {each.name} does not carry the label "
                f"{ALLOW_USE_LABEL}=true, so that no run may use it."
            )


def _missing(case: Case) -> Iterator[str]:
    for each in references_of(case.run):
        if case.observed.references.get(each) is None:
            yield (
                f"{each.path}: the {each.kind} {each.name} does not exist in the namespace "
                f"{case.namespace}."
            )
