"""The certificates that servers and clients of the tests show each other on 127.0.0.1.

One authority signed all of them. Made once by openssl, valid from 2020 to 2120 but for the one that
has expired, trusted only by the tests that name it.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import grpc  # type: ignore[import-untyped]  # has no types

Shown = Literal["server", "named", "expired", "client"]
"""server: for 127.0.0.1 and localhost; named: for model.test alone; expired: in 2021."""

AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIBcjCCARigAwIBAgICEAAwCgYIKoZIzj0EAwIwHzEdMBsGA1UEAwwUVGhlIHRl
c3RzJyBhdXRob3JpdHkwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBa
MB8xHTAbBgNVBAMMFFRoZSB0ZXN0cycgYXV0aG9yaXR5MFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAEf6DyfAUsjz6OGzTV1omYEld+p5V6ftmJYgIeipv1uS8t1Ffe
Ot4+ot6d3SYo+n/4Scl6603MbdqurSygPGtmr6NCMEAwDwYDVR0TAQH/BAUwAwEB
/zAOBgNVHQ8BAf8EBAMCAoQwHQYDVR0OBBYEFHn6f36fZ3VXagArMEfsFSX33wc1
MAoGCCqGSM49BAMCA0gAMEUCIEeRKcgp1EyMZfrQReQrUCT+UWy/XX56YpxAM7Ho
f4rqAiEAo78uHkHNpd3s9tfr7G2SGBRG0mD1qYbRXo9mPvszOrM=
-----END CERTIFICATE-----
"""

PAIRS: dict[Shown, tuple[str, str]] = {
    "server": (
        """\
-----BEGIN CERTIFICATE-----
MIIBuDCCAV6gAwIBAgICEAEwCgYIKoZIzj0EAwIwHzEdMBsGA1UEAwwUVGhlIHRl
c3RzJyBhdXRob3JpdHkwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBa
MBQxEjAQBgNVBAMMCTEyNy4wLjAuMTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IA
BKMxddAE19K7mhMQ+7ryvq4ODNtsnAvOeeBsx5FSnoOhR4ZSAub8b4FSTQ7SWLe+
QNyPU1rooBQOhqAyPeNsWI+jgZIwgY8wDAYDVR0TAQH/BAIwADAOBgNVHQ8BAf8E
BAMCB4AwEwYDVR0lBAwwCgYIKwYBBQUHAwEwHwYDVR0jBBgwFoAUefp/fp9ndVdq
ACswR+wVJfffBzUwHQYDVR0OBBYEFGUClJNRadKoa6eqbhgRWYjRU42YMBoGA1Ud
EQQTMBGHBH8AAAGCCWxvY2FsaG9zdDAKBggqhkjOPQQDAgNIADBFAiBDw2NU+j8j
FgkA8TZLF4+kUz9nAJMFPlvH7xeMD3hBiwIhANZAREJ1WNwtFasRviSWJJYbA4d/
HR3Y616zazaPo9hp
-----END CERTIFICATE-----
""",
        """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgzAH6Ka63hq0H8WCD
7tZH5yrD+LzvQ4WvPp5QOvX0z+GhRANCAASjMXXQBNfSu5oTEPu68r6uDgzbbJwL
znngbMeRUp6DoUeGUgLm/G+BUk0O0li3vkDcj1Na6KAUDoagMj3jbFiP
-----END PRIVATE KEY-----
""",
    ),
    "named": (
        """\
-----BEGIN CERTIFICATE-----
MIIBtDCCAVqgAwIBAgICEAIwCgYIKoZIzj0EAwIwHzEdMBsGA1UEAwwUVGhlIHRl
c3RzJyBhdXRob3JpdHkwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBa
MBUxEzARBgNVBAMMCm1vZGVsLnRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AATYndc3eixy7VQM5Mm5a18GpcVu8kfOM/wZqenw2nnSu5w+asCNX3eiwuM9qZRd
HlQyd7f/9rniFQ2OFzxUzg/so4GNMIGKMAwGA1UdEwEB/wQCMAAwDgYDVR0PAQH/
BAQDAgeAMBMGA1UdJQQMMAoGCCsGAQUFBwMBMB8GA1UdIwQYMBaAFHn6f36fZ3VX
agArMEfsFSX33wc1MB0GA1UdDgQWBBRICgZe7ldmkInRClTSnHD2iH18ujAVBgNV
HREEDjAMggptb2RlbC50ZXN0MAoGCCqGSM49BAMCA0gAMEUCIDvoxrqfjVKmWBvD
0OploToAJfQYJFopNO2P6jUUzGVAAiEAxtoS2ZMagvtnezgmd0ymfm6h8QOD6c5D
oZ89qY8YGOw=
-----END CERTIFICATE-----
""",
        """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgtUqcZ5KUTfybOdcF
tjTEzT20+pNOZMtXwDuLwzo7LPOhRANCAATYndc3eixy7VQM5Mm5a18GpcVu8kfO
M/wZqenw2nnSu5w+asCNX3eiwuM9qZRdHlQyd7f/9rniFQ2OFzxUzg/s
-----END PRIVATE KEY-----
""",
    ),
    "expired": (
        """\
-----BEGIN CERTIFICATE-----
MIIBqzCCAVGgAwIBAgICEAQwCgYIKoZIzj0EAwIwHzEdMBsGA1UEAwwUVGhlIHRl
c3RzJyBhdXRob3JpdHkwHhcNMjAwMTAxMDAwMDAwWhcNMjEwMTAxMDAwMDAwWjAU
MRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQx
EritBMi/hr9lIXrott/lHBKfpoM7MIi7V++nN3+YkWJbzYNopIRkv1OKDV3jRcvU
SWOc1xRezYVPRLuO/MOpo4GHMIGEMAwGA1UdEwEB/wQCMAAwDgYDVR0PAQH/BAQD
AgeAMBMGA1UdJQQMMAoGCCsGAQUFBwMBMB8GA1UdIwQYMBaAFHn6f36fZ3VXagAr
MEfsFSX33wc1MB0GA1UdDgQWBBRqxbog3SSFjPxRfcThpt2ke869DzAPBgNVHREE
CDAGhwR/AAABMAoGCCqGSM49BAMCA0gAMEUCIB9j+SOBiJzVngEP5bPBYmK+Ac9p
Vd6pjlMk3oM/kvj9AiEAx4j6KjqCT5ZvS/x2aLPv5AKu7ai3HiXanXCPIVNbPLY=
-----END CERTIFICATE-----
""",
        """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgV+fJkZm0kapd0+hb
BQqHmDktlGKiwTK4JJDyx3gcZ8qhRANCAAQxEritBMi/hr9lIXrott/lHBKfpoM7
MIi7V++nN3+YkWJbzYNopIRkv1OKDV3jRcvUSWOc1xRezYVPRLuO/MOp
-----END PRIVATE KEY-----
""",
    ),
    "client": (
        """\
-----BEGIN CERTIFICATE-----
MIIBmTCCAT+gAwIBAgICEAMwCgYIKoZIzj0EAwIwHzEdMBsGA1UEAwwUVGhlIHRl
c3RzJyBhdXRob3JpdHkwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBa
MBMxETAPBgNVBAMMCGEgY2xpZW50MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
EnfzmhM5UrZRdEQS1uZef4yA5R43OAMMxOZCLwUbIBudgH9Eq/Xa+RaLeoxceGcF
M/8lR8hkDhIMZWNkiz6qp6N1MHMwDAYDVR0TAQH/BAIwADAOBgNVHQ8BAf8EBAMC
B4AwEwYDVR0lBAwwCgYIKwYBBQUHAwIwHwYDVR0jBBgwFoAUefp/fp9ndVdqACsw
R+wVJfffBzUwHQYDVR0OBBYEFHkZ1ekOxg46H878wnD7yrI7HjxrMAoGCCqGSM49
BAMCA0gAMEUCICNGIu05vtiNMoZaAMWnhy5p7ezi2HiBL67lbqB2aMbgAiEA94l5
/0dOhV+esU5e4GS3vtgZjIOhyFDi0fcMKwCDuxI=
-----END CERTIFICATE-----
""",
        """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgbPx7wEJEEaye9DOZ
JEvtmfAbuTpqeMDc2KFRO8IKN/KhRANCAAQSd/OaEzlStlF0RBLW5l5/jIDlHjc4
AwzE5kIvBRsgG52Af0Sr9dr5Fot6jFx4ZwUz/yVHyGQOEgxlY2SLPqqn
-----END PRIVATE KEY-----
""",
    ),
}
"""Certificate and key of each."""


@dataclass(frozen=True, slots=True)
class Files:
    """A certificate, its key, and the authority that signed it."""

    certificate: Path
    key: Path
    authority: Path


def files(folder: Path, shown: Shown) -> Files:
    """Write a certificate and what belongs to it."""
    found = Files(folder / f"{shown}.pem", folder / f"{shown}-key.pem", folder / "authority.pem")
    certificate, key = PAIRS[shown]
    found.certificate.write_text(certificate)
    found.key.write_text(key)
    found.authority.write_text(AUTHORITY)
    return found


def server_side(
    folder: Path, shown: Shown = "server", *, wants_client: bool = False
) -> tuple[ssl.SSLContext, Any]:
    """Return the context of an HTTP server and the credentials of a gRPC server that show one."""
    found = files(folder, shown)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(found.certificate, found.key)
    context.set_alpn_protocols(["http/1.1"])
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(found.authority)
    return context, grpc.ssl_server_credentials(
        [(found.key.read_bytes(), found.certificate.read_bytes())],
        root_certificates=found.authority.read_bytes() if wants_client else None,
        require_client_auth=wants_client,
    )
