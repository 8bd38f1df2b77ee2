"""Checks of a run's pods against the LimitRanges of its namespace."""

from collections.abc import Iterator, Mapping, Sequence

from inferometer_cli.preflight.check import Check, Json, Unread, blocked, ok, unknown, warning
from inferometer_cli.preflight.pods import Pods
from inferometer_cli.preflight.resource_amounts import Amounts, amounts, written

_ABOUT = "limit range"


def limit_checks(ranges: Sequence[Json] | Unread, pods: Sequence[Pods]) -> Iterator[Check]:
    """Yield what each LimitRange says of a run's containers and pods."""
    if isinstance(ranges, Unread):
        yield unknown(_ABOUT, f"whether a LimitRange rejects a pod: {ranges.why}")
        return
    if not ranges:
        yield ok(_ABOUT, "the namespace has no LimitRange")
    for each in ranges:
        found = list(_checks_of(each, pods))
        yield from found or [ok(_ABOUT, f"{each['metadata']['name']} accepts the run's pods")]


def _checks_of(limit_range: Json, pods: Sequence[Pods]) -> Iterator[Check]:
    name = limit_range["metadata"]["name"]
    for item in limit_range.get("spec", {}).get("limits", ()):
        for each in pods:
            if item.get("type") == "Pod":
                faults = list(_faults(item, each.requests, each.limits))
            elif item.get("type") == "Container":
                faults = [fault for c in each.containers for fault in _of_container(item, c)]
                if _throttles(item, each):
                    limit = written("cpu", amounts(item["default"])["cpu"])
                    message = f"{name} gives the {each.name} a CPU limit of {limit}"
                    yield warning(
                        _ABOUT, f"{message}; a throttled load generator falsifies latency"
                    )
            else:
                faults = []
            for fault in dict.fromkeys(faults):
                yield blocked(_ABOUT, f"{name}: the {each.name} {fault}")


def _of_container(item: Json, container: Json) -> Iterator[str]:
    resources = container.get("resources", {})
    limits = amounts(item.get("default")) | amounts(resources.get("limits"))
    # As the API server does: a missing request becomes the default request, else the limit.
    requests = limits | amounts(item.get("defaultRequest")) | amounts(resources.get("requests"))
    yield from _faults(item, requests, limits)
    for name, least in requests.items():
        if name in limits and limits[name] < least:
            limit = f"its limit becomes {written(name, limits[name])}"
            yield f"requests {written(name, least)}, but {limit}; have the default raised"


def _faults(item: Json, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, least in amounts(item.get("min")).items():
        if name in requests and requests[name] < least:
            requested = written(name, requests[name])
            yield f"requests {requested}; the minimum is {written(name, least)}"
    for name, most in amounts(item.get("max")).items():
        if name not in limits:
            yield f"has no {name} limit; one of at most {written(name, most)} is required"
        elif limits[name] > most:
            requested = written(name, limits[name])
            yield f"has a limit of {requested}; the maximum is {written(name, most)}"
    for name, ratio in amounts(item.get("maxLimitRequestRatio")).items():
        if requests.get(name) and name in limits and limits[name] / requests[name] > ratio:
            yield f"has a {name} limit of more than {ratio} times its request"


def _throttles(item: Json, pods: Pods) -> bool:
    default: Mapping[str, str] = item.get("default") or {}
    return "cpu" in default and "cpu" not in pods.limits
