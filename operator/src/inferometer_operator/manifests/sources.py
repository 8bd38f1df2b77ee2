"""Sources of a pod's model and inputs, and the container that fetches them."""

from collections.abc import Sequence

from inferometer_api.plan.cluster_objects import CACHE_CHECKSUMS_FILE, CACHE_DRIVER, CACHE_FOLDER
from inferometer_api.plan.fetch_commands import FetchingPod
from inferometer_api.spec.address import CLAIMS, CONFIG_MAPS, STORE_VARIABLES, Address, address
from inferometer_api.spec.model import OtherModel
from inferometer_api.spec.resolve import whole_bytes
from inferometer_api.spec.run import BenchmarkRun
from inferometer_operator.manifests.owner import Manifest
from inferometer_operator.manifests.pod_spec import container, mount
from inferometer_operator.settings import Settings

SOURCES = "/sources"
"""The folder for mounted claims and ConfigMaps."""
_CLAIM_BYTES = 1 << 40
"""The largest model on a claim."""


def addresses(*uris: str | None) -> tuple[Address, ...]:
    """Return the distinct claims and ConfigMaps that URIs name; raise AddressError."""
    found = (address(uri) for uri in uris if uri is not None)
    mountable = {(each.kind, each.place): each for each in found if each and each.kind != "s3"}
    return tuple(mountable.values())


def volumes(places: Sequence[Address]) -> list[Manifest]:
    """Return a read-only volume for each place."""
    return [_volume(index, place) for index, place in enumerate(places)]


def mount_all(target: Manifest, places: Sequence[Address]) -> None:
    """Mount every source read-only into a container, below SOURCES."""
    for index, place in enumerate(places):
        folder = CLAIMS if place.kind == "pvc" else CONFIG_MAPS
        path = f"{SOURCES}/{folder}/{place.place}"
        mount(target, _name(index), path, read_only=True)


def cache_volume(run: BenchmarkRun) -> Manifest | None:
    """Return the volume of the node's model cache that a run names, or None.

    The kubelet hands the keys of an s3:// store to the cache.
    """
    model = run.spec.model
    if model.cache is None:
        return None
    attributes = {"uri": model.uri, "sha256": model.sha256}
    volume: Manifest = {"driver": CACHE_DRIVER, "readOnly": True, "volumeAttributes": attributes}
    if model.credentials_secret is not None:
        volume["nodePublishSecretRef"] = {"name": model.credentials_secret}
    return {"name": CACHE_FOLDER, "csi": volume}


def mount_cache(target: Manifest) -> None:
    """Mount the volume of the node's model cache into a container, below SOURCES."""
    mount(target, CACHE_FOLDER, f"{SOURCES}/{CACHE_FOLDER}", read_only=True)


def checksums_file(run: BenchmarkRun) -> str | None:
    """Return where a server finds the checksums that the cache verified, or None."""
    if run.spec.model.cache is None:
        return None
    return f"{SOURCES}/{CACHE_FOLDER}/{CACHE_CHECKSUMS_FILE}"


def fetching_pod(run: BenchmarkRun, settings: Settings) -> FetchingPod:
    """Return the pod's limits for fetching: a model that is mounted takes no storage."""
    room = whole_bytes(settings.model_storage)
    is_mounted = run.spec.model.cache is not None or bool(addresses(run.spec.model.uri))
    stays = is_mounted and takes_any_path(run, settings)
    engine, engines = settings.engine_of(run.spec)
    return FetchingPod(SOURCES, _CLAIM_BYTES if stays else room, room, engine, engines)


def fetching_other(other: OtherModel, settings: Settings) -> FetchingPod:
    """Return the limits for fetching a further model: on a claim it stays where it is."""
    room = whole_bytes(settings.model_storage)
    return FetchingPod(SOURCES, _CLAIM_BYTES if addresses(other.uri) else room, room)


def takes_any_path(run: BenchmarkRun, settings: Settings) -> bool:
    """Return whether a run's server can read its model wherever it is mounted."""
    return settings.launch_of(run.spec).layout(run).takes_any_path


def fetch_container(
    run: BenchmarkRun,
    image: str,
    command: Sequence[str],
    resources: Manifest,
    settings: Settings,
    *,
    name: str = "fetch",
) -> Manifest:
    """Return an init container that fetches and checks a model; the caller adds its mounts.

    Such containers alone get the keys of an s3:// store. A key that the Secret lacks is left out,
    so that the fetcher can name it.
    """
    made = container(name, image, settings.images, command, resources)
    made["env"] += store_environment(run.spec.model.credentials_secret)
    return made


def store_environment(secret: str | None) -> list[Manifest]:
    """Return the environment variables with the keys of an s3:// store, as far as they exist."""
    if secret is None:
        return []
    return [
        {
            "name": variable,
            "valueFrom": {"secretKeyRef": {"name": secret, "key": key, "optional": True}},
        }
        for key, variable in STORE_VARIABLES.items()
    ]


def _volume(index: int, place: Address) -> Manifest:
    if place.kind == "pvc":
        # Read-only: then Kubernetes does not change the owner of its files either.
        claim = {"claimName": place.place, "readOnly": True}
        return {"name": _name(index), "persistentVolumeClaim": claim}
    return {"name": _name(index), "configMap": {"name": place.place}}


def _name(index: int) -> str:
    return f"source-{index}"
