"""Acceptance of a run: its spec is valid, this version supports it, and it is allowed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from inferometer_api.plan.availability import unavailable
from inferometer_api.plan.cluster_objects import ALLOW_USE_LABEL, DEFAULT_PORTS
from inferometer_api.plan.deadlines import APPEARS_SECONDS
from inferometer_api.runtimes.table import runtimes_that
from inferometer_api.spec.resolve import fill_defaults
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.status.condition_reasons import REASONS, ReasonName
from inferometer_operator.manifests.sources import takes_any_path
from inferometer_operator.reconcile.ceilings import beyond_ceilings
from inferometer_operator.reconcile.context import ReconcileContext
from inferometer_operator.reconcile.external_service import (
    late_until,
    misdirection,
    missing_port,
)
from inferometer_operator.reconcile.model_manifest import manifest_problems
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.raw_objects import InvalidObjectError, read_object
from inferometer_operator.reconcile.references import run_references
from inferometer_operator.reconcile.times import add_seconds
from inferometer_operator.settings import ServerNotAllowedError


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a run is rejected."""

    reason: ReasonName
    message: str
    may_appear: bool = False
    """Whether a missing object may only be late."""


def parse_run(raw: Json, *, begun: bool = False) -> BenchmarkRun | Rejection:
    """Return a raw run with every default filled in, or all problems of its spec.

    A run that has begun was accepted, maybe by a newer version: the fields of its spec that this
    version does not know are ignored.
    """
    try:
        return fill_defaults(read_object(raw, BenchmarkRun, is_accepted=begun))
    except InvalidObjectError as error:
        return _refusal("InvalidSpec", error.problems)


def find_rejection(context: ReconcileContext) -> Rejection | None:
    """Return why a valid run is rejected here, or None if it is accepted."""
    checks: tuple[tuple[ReasonName, Iterable[str]], ...] = (
        (
            "NotAvailable",
            [
                *unavailable(context.run, place="Cluster"),
                *_without_cache(context),
                *_without_removal(context),
            ],
        ),
        ("CeilingExceeded", beyond_ceilings(context.run, context.settings)),
        ("KServeNotFound", _without_kserve(context)),
    )
    for reason, found in checks:
        if sentences := list(found):
            return _refusal(reason, sentences)
    if sentences := [
        *_forbidden_secrets(context),
        *_forbidden_targets(context),
        *_forbidden_servers(context),
        *_unlabelled(context),
    ]:
        refusal = _refusal("NotAllowed", sentences)
        late = late_until(context) if len(sentences) == 1 and _is_misdirected(context) else None
        may_appear = late is not None and context.now < late
        return Rejection(refusal.reason, refusal.message, may_appear=may_appear)
    if sentences := list(_missing_ports(context)):
        return _refusal("ServicePortNotFound", sentences)
    if sentences := list(_missing(context)):
        refusal = _refusal("NotFound", sentences)
        return Rejection(refusal.reason, refusal.message, may_appear=_may_be_late(context))
    if sentences := list(manifest_problems(context)):
        return _refusal("TaskRefused", sentences)
    return None


def _may_be_late(context: ReconcileContext) -> bool:
    """Return whether objects of a run so new may still be on their way."""
    return context.now < add_seconds(context.since(context.raw, "created"), APPEARS_SECONDS)


def _is_misdirected(context: ReconcileContext) -> bool:
    """Return whether the Service of the External server leads to no pods of the namespace."""
    observed = context.observed
    return misdirection(observed.service, observed.behind_service, context.namespace) != ""


def _refusal(reason: ReasonName, sentences: list[str]) -> Rejection:
    many = f"{len(sentences)} problems. " if len(sentences) > 1 else ""
    return Rejection(reason, f"{many}{' '.join(sentences)} {REASONS[reason].remedy}")


def _forbidden_secrets(context: ReconcileContext) -> Iterator[str]:
    if context.settings.allow_secrets:
        return
    for each in run_references(context.run):
        if each.kind == "Secret":
            yield (
                f"{each.path}: the operator does not allow runs to use Secrets such as {each.name} "
                "(its setting allowSecrets is false)."
            )


def _forbidden_targets(context: ReconcileContext) -> Iterator[str]:
    external = context.run.spec.server.external
    if external is None:
        return
    if external.url is not None and not is_allowed_url(
        external.url, context.settings.external_allow_list
    ):
        listed = ", ".join(context.settings.external_allow_list) or "nothing"
        yield (
            f"spec.server.external.url: {external.url} is not on the operator's allow list "
            f"(its setting externalAllowList: {listed}); use a Service of the run's namespace "
            "instead."
        )
    observed = context.observed
    wrong = misdirection(observed.service, observed.behind_service, context.namespace)
    if external.service is not None and wrong:
        yield (
            f"spec.server.external.service: {external.service.name} is a Service {wrong}; use one "
            "with a selector of pods."
        )


def _without_kserve(context: ReconcileContext) -> Iterator[str]:
    inference = context.observed.inference
    if inference is not None and inference.refusal:
        yield f"spec.server.runtime: KServe cannot be used: {inference.refusal}."


def _forbidden_servers(context: ReconcileContext) -> Iterator[str]:
    if context.uses_kserve and not context.settings.kserve.enabled:
        yield (
            "spec.server.runtime: the operator does not allow KServe (its setting kserve.enabled "
            "is false)."
        )
    if context.is_launched:
        try:
            context.settings.launch_of(context.run.spec)
        except ServerNotAllowedError as error:
            yield str(error)


def _without_cache(context: ReconcileContext) -> Iterator[str]:
    if context.run.spec.model.cache is None:
        return
    if not context.settings.model_cache:
        yield (
            "spec.model.cache: the nodes of this cluster have no model cache (the operator's "
            "setting modelCache.enabled is false); install it with the chart inferometer-agent, "
            "or leave cache out: then every pod fetches the model."
        )
    try:
        is_mountable = takes_any_path(context.run, context.settings)
    except ServerNotAllowedError:
        return  # reported as such
    if not is_mountable:
        *others, last = runtimes_that(
            lambda each: each.launch is not None and each.launch.layout(context.run).takes_any_path
        )
        yield (
            f"spec.model.cache: a server of runtime {context.run.spec.server.runtime} reads a copy "
            "of its model in a folder of its own, and not the file in the cache; use runtime "
            f"{', '.join(others)} or {last}, or leave cache out."
        )


def _without_removal(context: ReconcileContext) -> Iterator[str]:
    if not context.run.spec.pulls_image:
        return
    agents = context.settings.agent
    if agents is None or agents.image_removal_token_file is None:
        yield (
            "spec.scenarios: a cold start with the state Nothing needs the agent chart with "
            "coldStart.allowImageRemoval: true, and agent.imageRemoval in the operator's chart; "
            "take the state ImagePresent."
        )
    if context.settings.images.pull_policy == "Never":
        yield (
            "spec.scenarios: after a cold start with the state Nothing no pod would find its "
            "image, because the operator's setting images.pullPolicy is Never."
        )


def _missing_ports(context: ReconcileContext) -> Iterator[str]:
    external = context.run.spec.server.external
    if external is None or external.service is None:
        return
    if found := missing_port(context.observed.service, external.service.port):
        yield f"spec.server.external.service.port: {found}"


def is_allowed_url(url: str, allow_list: list[str]) -> bool:
    """Return whether the allow list names a URL's host: "HOST:PORT", "HOST" or "*.SUFFIX"."""
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


def _unlabelled(context: ReconcileContext) -> Iterator[str]:
    for each in run_references(context.run):
        found = context.observed.references.get(each)
        if found is not None and (found.get("labels") or {}).get(ALLOW_USE_LABEL) != each.use:
            yield (
                f"{each.path}: the {each.kind} {each.name} does not carry the label "
                f"{ALLOW_USE_LABEL}={each.use}, which allows runs to use it."
            )


def _missing(context: ReconcileContext) -> Iterator[str]:
    for each in run_references(context.run):
        if context.observed.references.get(each) is None:
            yield (
                f"{each.path}: the {each.kind} {each.name} does not exist in the namespace "
                f"{context.namespace}."
            )
