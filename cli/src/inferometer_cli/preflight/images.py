"""Are the images of a run there, and the classes that its pods name?"""

from collections.abc import Iterator, Mapping, Sequence

from inferometer_cli.preflight.check import Check, Json, Unread, not_known, ok, stops, warning
from inferometer_cli.preflight.pods import Pods


def image_checks(pods: Sequence[Pods], nodes: Sequence[Json] | Unread) -> Iterator[Check]:
    """Yield for each image whether a node has it; whether one can be pulled is not known before."""
    policies = {c["image"]: c.get("imagePullPolicy") for each in pods for c in each.containers}
    for image, policy in policies.items():
        holders = [] if isinstance(nodes, Unread) else [n for n in nodes if _has(n, image)]
        if holders:
            yield ok("images", f"{image} is on {holders[0]['metadata']['name']}")
        elif policy == "Never" and not isinstance(nodes, Unread):
            yield warning("images", f"{image} is told of no node, and is never pulled: load it")
        else:
            yield not_known("images", f"whether nodes can pull {image}")


def class_checks(
    pods: Sequence[Pods], classes: Mapping[tuple[str, str], Json | Unread]
) -> Iterator[Check]:
    """Yield whether runtime and priority classes are there; `classes` by kind and name."""
    for kind, name in named_classes(pods):
        found = classes.get((kind, name))
        if isinstance(found, Unread) and found.absent:
            yield stops("classes", f"there is no {kind} {name}, which the operator's settings name")
        elif isinstance(found, Unread):
            yield not_known("classes", f"whether there is a {kind} {name}: {found.why}")
        else:
            yield ok("classes", f"{kind} {name} is there")


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
    # A node tells names with registry and library, where a pod may leave them out.
    return any(name == image or name.endswith(f"/{image}") for name in names)
