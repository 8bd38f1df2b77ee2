"""Checks of a run against the ResourceQuotas of its namespace."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from inferometer_cli.preflight.check import Check, Json, Unread, blocked, ok, unknown
from inferometer_cli.preflight.pods import LOAD, Pods
from inferometer_cli.preflight.resource_amounts import Amounts, amount, written

_ABOUT = "quota"
_NOT_OURS = frozenset({"BestEffort", "Terminating", "CrossNamespacePodAffinity"})
"""Scopes that never match a pod of a run."""
_COMPUTE = ("cpu", "memory")
_OBJECTS = {
    "configmaps": 2,  # the plan, and at least one part of the result
    "count/configmaps": 2,
    "count/benchmarkruns.inferometer.dev": 1,
}
_OBJECTS_OF_A_FLEET = {"services": Decimal(1), "count/services": Decimal(1)}


def quota_checks(quotas: Sequence[Json] | Unread, pods: Sequence[Pods]) -> Iterator[Check]:
    """Yield what each quota means for a run's pods and objects."""
    if isinstance(quotas, Unread):
        yield unknown(_ABOUT, f"whether a ResourceQuota leaves room: {quotas.why}")
        return
    if not quotas:
        yield ok(_ABOUT, "the namespace has no ResourceQuota")
    for quota in quotas:
        yield from _checks_of(quota, pods)


def _checks_of(quota: Json, pods: Sequence[Pods]) -> Iterator[Check]:
    name = quota["metadata"]["name"]
    spec = quota.get("spec", {})
    if set(spec.get("scopes", ())) & _NOT_OURS:
        return
    if spec.get("scopeSelector"):
        yield unknown(_ABOUT, f"{name} has a scopeSelector, which this check does not evaluate")
        return
    hard = (quota.get("status") or {}).get("hard") or spec.get("hard") or {}
    used = (quota.get("status") or {}).get("used") or {}
    requested = _requested(pods)
    faults = [
        fault
        for key, most in hard.items()
        if (fault := _fault(key, amount(most), amount(used.get(key, 0)), requested, pods))
    ]
    if not faults:
        yield ok(_ABOUT, f"{name} has room for the run")
    for fault in faults:
        yield blocked(_ABOUT, f"{name}: {fault}")


def _fault(
    key: str, most: Decimal, used: Decimal, requested: Amounts, pods: Sequence[Pods]
) -> str | None:
    if key.startswith("limits.") and (without := _without_limit(pods, key)):
        return (
            f"it bounds {key}, so pods without that limit are rejected, and the {without} has none "
            f"(a load generator must not be throttled); have {key} removed from the quota"
        )
    need = requested.get(_full(key))
    if need is None or need <= most - used:
        return None
    words = f"{key}: the run needs {written(key, need)}"
    if need > most:
        return (
            f"{words}, but the whole quota is {written(key, most)}; request less, or have it raised"
        )
    return (
        f"{words}, but only {written(key, most - used)} of {written(key, most)} is left; request "
        "less, delete what is not needed, or have it raised"
    )


def _full(key: str) -> str:
    return f"requests.{key}" if key in _COMPUTE else key


def _requested(pods: Sequence[Pods]) -> Amounts:
    requested: Amounts = {name: Decimal(count) for name, count in _OBJECTS.items()}
    if any(each.name == LOAD and each.count > 1 for each in pods):
        requested |= _OBJECTS_OF_A_FLEET
    requested["count/jobs.batch"] = Decimal(len(pods))
    requested["pods"] = requested["count/pods"] = Decimal(sum(each.count for each in pods))
    for each in pods:
        for kind, amounts in (("requests", each.requests), ("limits", each.limits)):
            for name, value in amounts.items():
                key = f"{kind}.{name}"
                requested[key] = requested.get(key, Decimal(0)) + value * each.count
    return requested


def _without_limit(pods: Sequence[Pods], key: str) -> str | None:
    resource = key.removeprefix("limits.")
    if resource not in _COMPUTE:
        return None
    return next((each.name for each in pods if resource not in each.limits), None)
