"""Where do a pod's model and inputs come from, and which container fetches them?"""

from collections.abc import Sequence

from inferometer_api.plan.launch import FetchingPod
from inferometer_api.spec.address import CLAIMS, CONFIG_MAPS, STORE_VARIABLES, Address, address
from inferometer_api.spec.resolve import whole_bytes
from inferometer_api.spec.run import BenchmarkRun
from inferometer_operator.manifests.owner import Manifest
from inferometer_operator.manifests.pod_spec import container, mount
from inferometer_operator.settings import Settings

SOURCES = "/sources"
"""The folder below which claims and ConfigMaps are mounted."""
_FETCHER = "fetch"
_CLAIM_BYTES = 1 << 40
"""The most that a model on a claim may have."""


def addresses(*uris: str | None) -> tuple[Address, ...]:
    """Return where pvc:// and configmap:// addresses lead, each place once; raises AddressError."""
    found = (address(uri) for uri in uris if uri is not None)
    mountable = {(each.kind, each.place): each for each in found if each and each.kind != "s3"}
    return tuple(mountable.values())


def volumes(places: Sequence[Address]) -> list[Manifest]:
    """Return a read-only volume for each place."""
    return [_volume(index, place) for index, place in enumerate(places)]


def mount_all(target: Manifest, places: Sequence[Address]) -> None:
    """Let a container read every place below SOURCES."""
    for index, place in enumerate(places):
        folder = CLAIMS if place.kind == "pvc" else CONFIG_MAPS
        path = f"{SOURCES}/{folder}/{place.place}"
        mount(target, _name(index), path, read_only=True)


def fetching_pod(run: BenchmarkRun, settings: Settings) -> FetchingPod:
    """Return what a pod of the run has for fetching: a model on a claim takes no room of it."""
    room = whole_bytes(settings.model_storage)
    on_claim = bool(addresses(run.spec.model.uri))
    return FetchingPod(SOURCES, _CLAIM_BYTES if on_claim else room, room)


def fetch_container(
    run: BenchmarkRun,
    image: str,
    command: Sequence[str],
    resources: Manifest,
    settings: Settings,
) -> Manifest:
    """Return the init container that fetches and checks; what it needs to see is mounted to it.

    It alone is given the keys of an s3:// store. A key that the Secret lacks is left out, so that
    the fetcher can say which.
    """
    made = container(_FETCHER, image, settings.images, command, resources)
    secret = run.spec.model.credentials_secret
    if secret is not None:
        made["env"] += [
            {
                "name": variable,
                "valueFrom": {"secretKeyRef": {"name": secret, "key": key, "optional": True}},
            }
            for key, variable in STORE_VARIABLES.items()
        ]
    return made


def _volume(index: int, place: Address) -> Manifest:
    if place.kind == "pvc":
        # Read-only as a whole: then Kubernetes leaves the owner of its files alone, too.
        claim = {"claimName": place.place, "readOnly": True}
        return {"name": _name(index), "persistentVolumeClaim": claim}
    return {"name": _name(index), "configMap": {"name": place.place}}


def _name(index: int) -> str:
    return f"source-{index}"
