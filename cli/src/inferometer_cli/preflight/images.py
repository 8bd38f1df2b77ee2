"""Checks of the images of a run, and of the runtime and priority classes of its pods."""

from collections.abc import Iterator, Mapping, Sequence

from inferometer_cli.preflight.check import Check, Json, Unread, blocked, ok, unknown, warning
from inferometer_cli.preflight.pods import Pods


def image_checks(pods: Sequence[Pods], nodes: Sequence[Json] | Unread) -> Iterator[Check]:
    """Yield for each image whether a node has it; whether nodes can pull it remains unknown."""
    policies = {c["image"]: c.get("imagePullPolicy") for each in pods for c in each.containers}
    for image, policy in policies.items():
        holders = [] if isinstance(nodes, Unread) else [n for n in nodes if _has(n, image)]
        if holders:
            yield ok("images", f"{image} is on {holders[0]['metadata']['name']}")
        elif policy == "Never" and not isinstance(nodes, Unread):
            yield warning(
                "images",
                f"no node reports {image}, and imagePullPolicy is Never; load it on the nodes",
            )
        else:
            yield unknown("images", f"whether nodes can pull {image}")


def class_checks(
    pods: Sequence[Pods], classes: Mapping[tuple[str, str], Json | Unread]
) -> Iterator[Check]:
    """Yield whether runtime and priority classes exist; `classes` by kind and name."""
    for kind, name in named_classes(pods):
        found = classes.get((kind, name))
        if isinstance(found, Unread) and found.absent:
            yield blocked(
                "classes", f"the operator's settings name {kind} {name}, which does not exist"
            )
        elif isinstance(found, Unread):
            yield unknown("classes", f"whether {kind} {name} exists: {found.why}")
        else:
            yield ok("classes", f"{kind} {name} exists")


def named_classes(pods: Sequence[Pods]) -> list[tuple[str, str]]:
    """Return kind and name of each class that the pods name."""
    fields = (("RuntimeClass", "runtimeClassName"), ("PriorityClass", "priorityClassName"))
    found = [
        (kind, each.spec[field]) for each in pods for kind, field in fields if field in each.spec
    ]
    return list(dict.fromkeys(found))


def _has(node: Json, image: str) -> bool:
    images = (node.get("status") or {}).get("images") or ()
    names = {name for each in images for name in each.get("names") or ()}
    # A node reports names with registry and library; a pod may leave them out.
    return any(name == image or name.endswith(f"/{image}") for name in names)
