"""The objects of its namespace that a run names."""

from pydantic import ValidationError

from inferometer_api.spec.address import AddressError, address
from inferometer_api.spec.run import BenchmarkRun, RunSpec
from inferometer_operator.reconcile.observed import Json, ObjectReference


def raw_references(run: Json) -> tuple[ObjectReference, ...]:
    """Return every object that a raw run names; none if its spec cannot be read."""
    try:
        spec = RunSpec.read(run.get("spec"))
    except ValidationError:
        return ()
    return _references(spec)


def run_references(run: BenchmarkRun) -> tuple[ObjectReference, ...]:
    """Return every object that a run names.

    The Service of an External server is not among them: it needs no label.
    """
    return _references(run.spec)


def _references(spec: RunSpec) -> tuple[ObjectReference, ...]:
    found = [
        *_in_address("spec.model.uri", spec.model.uri),
        *_secret("spec.model.credentialsSecret", spec.model.credentials_secret, use="s3"),
        *_secret("spec.load.headersSecret", spec.load.headers_secret, use="headers"),
    ]
    for index, other in enumerate(spec.other_models or ()):
        found += _in_address(f"spec.otherModels[{index}].uri", other.uri)
    if spec.load.tls is not None:
        found += _secret("spec.load.tls.caSecret", spec.load.tls.ca_secret, use="tls")
        found += _secret("spec.load.tls.clientSecret", spec.load.tls.client_secret, use="tls")
    for path, uri in spec.data_addresses:
        found += _in_address(path, uri)
    if (export := spec.retention.export) is not None:
        found += _in_address("spec.retention.export.uri", export.uri.rstrip("/"))
        path = "spec.retention.export.credentialsSecret"
        found += _secret(path, export.credentials_secret, use="export")
    return tuple(found)


def _secret(path: str, name: str | None, use: str = "true") -> list[ObjectReference]:
    return [] if name is None else [ObjectReference("Secret", name, path, use)]


def _in_address(path: str, uri: str | None) -> list[ObjectReference]:
    try:
        found = None if uri is None else address(uri)
    except AddressError:
        return []
    match None if found is None else found.kind:
        case "pvc" if found is not None:
            return [ObjectReference("PersistentVolumeClaim", found.place, path)]
        case "configmap" if found is not None:
            return [ObjectReference("ConfigMap", found.place, path)]
        case _:
            return []
