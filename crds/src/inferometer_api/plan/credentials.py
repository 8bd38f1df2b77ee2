"""Which files prove who serves and who asks, and which headers go with each request?"""

from dataclasses import dataclass

from inferometer_api.spec.load import Load

CA, CLIENT, HEADERS = "ca", "client", "headers"
"""Folders below which a pod finds what its Secrets hold."""
CA_KEYS, CLIENT_KEYS = ("ca.crt",), ("tls.crt", "tls.key")
"""The keys of a Secret that are read; of one with headers each key is one."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Paths; None where something is not asked for."""

    ca_file: str | None = None
    """PEM file of the authority that signs the server's certificate."""
    certificate_file: str | None = None
    """PEM file of the client's certificate."""
    key_file: str | None = None
    headers_file: str | None = None
    """A file of `Name: value` lines, or a folder with one file for each header."""


NO_CREDENTIALS = Credentials()


def secrets_of(load: Load) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the Secret of each folder, and the keys of it that are read: none for all of them."""
    tls = load.tls
    asked = (
        (CA, None if tls is None else tls.ca_secret, CA_KEYS),
        (CLIENT, None if tls is None else tls.client_secret, CLIENT_KEYS),
        (HEADERS, load.headers_secret, ()),
    )
    return {folder: (secret, keys) for folder, secret, keys in asked if secret is not None}


def credentials_below(folder: str, load: Load) -> Credentials:
    """Return where a pod finds what `secrets_of` names, below a folder of its own."""
    found = secrets_of(load)
    certificate, key = (f"{folder}/{CLIENT}/{name}" for name in CLIENT_KEYS)
    return Credentials(
        ca_file=f"{folder}/{CA}/{CA_KEYS[0]}" if CA in found else None,
        certificate_file=certificate if CLIENT in found else None,
        key_file=key if CLIENT in found else None,
        headers_file=f"{folder}/{HEADERS}" if HEADERS in found else None,
    )
