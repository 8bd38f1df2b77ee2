"""A certificate for servers on 127.0.0.1.

Made once by openssl, valid for a hundred years, trusted only by the tests that name it.
"""

import ssl
from pathlib import Path

_CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUHdLT/HKinlI0IAbXXpDmrhPLJ3swCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJMTI3LjAuMC4xMCAXDTI2MTEyMTAzMzUxN1oYDzIxMjYxMDI4
MDMzNTE3WjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARYTn3HtaP9QuFQxm+cVU7xB7dkF9cU10HYowUEwZoJHZm1B65j/Rkp
UEv7A2jbJLHtnIrRD8jRWuFBzbLDdo3So28wbTAdBgNVHQ4EFgQUdztc2LQ1/1K9
9yuJrLGwwUOGC0cwHwYDVR0jBBgwFoAUdztc2LQ1/1K99yuJrLGwwUOGC0cwGgYD
VR0RBBMwEYcEfwAAAYIJbG9jYWxob3N0MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZI
zj0EAwIDSAAwRQIhALISfiV2KoO6z1+Dh6wp5Wl+LIKLrh27of3KHqbmCjjFAiA5
9I3FfjC8a9fnOhz0Axl3smgIj1+NQ8snslEB9/hHlA==
-----END CERTIFICATE-----
"""

_KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgwdO8mctpOtFWTzCD
q38az+lUYBtjQzqCsuzmLzmUyRuhRANCAARYTn3HtaP9QuFQxm+cVU7xB7dkF9cU
10HYowUEwZoJHZm1B65j/RkpUEv7A2jbJLHtnIrRD8jRWuFBzbLDdo3S
-----END PRIVATE KEY-----
"""


def certificate_file(folder: Path) -> Path:
    """Write the certificate, which is its own authority, and return its path."""
    path = folder / "certificate.pem"
    path.write_text(_CERTIFICATE)
    return path


def server_context(folder: Path) -> ssl.SSLContext:
    """Return the context of a server that shows the certificate."""
    key = folder / "key.pem"
    key.write_text(_KEY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_file(folder), key)
    return context
