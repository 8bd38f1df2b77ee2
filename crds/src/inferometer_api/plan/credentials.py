"""Files with the certificates and headers of a run, and the Secrets that they come from."""

from dataclasses import dataclass

from inferometer_api.spec.load import Load

CA, CLIENT, HEADERS = "ca", "client", "headers"
"""Folders in a pod for the contents of its Secrets."""
CA_KEYS, CLIENT_KEYS = ("ca.crt",), ("tls.crt", "tls.key")
"""Keys of a Secret that are read. In the Secret with headers every key is a header."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Paths of the files; None for those that the spec does not set."""

    ca_file: str | None = None
    """PEM file of the authority that signs the server's certificate."""
    certificate_file: str | None = None
    """PEM file of the client's certificate."""
    key_file: str | None = None
    headers_file: str | None = None
    """A file of `Name: value` lines, or a folder with one file for each header."""


NO_CREDENTIALS = Credentials()


def secrets_of(load: Load) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return, by folder, the Secret and the keys of it that are read; no keys mean all."""
    tls = load.tls
    settings = (
        (CA, None if tls is None else tls.ca_secret, CA_KEYS),
        (CLIENT, None if tls is None else tls.client_secret, CLIENT_KEYS),
        (HEADERS, load.headers_secret, ()),
    )
    return {folder: (secret, keys) for folder, secret, keys in settings if secret is not None}


def credentials_below(folder: str, load: Load) -> Credentials:
    """Return the paths in a pod of the contents of `secrets_of`, below a folder."""
    found = secrets_of(load)
    certificate, key = (f"{folder}/{CLIENT}/{name}" for name in CLIENT_KEYS)
    return Credentials(
        ca_file=f"{folder}/{CA}/{CA_KEYS[0]}" if CA in found else None,
        certificate_file=certificate if CLIENT in found else None,
        key_file=key if CLIENT in found else None,
        headers_file=f"{folder}/{HEADERS}" if HEADERS in found else None,
    )
