"""Certificates, signed by a test's own authority, for servers on 127.0.0.1.

For clients that take no certificate for its own authority. Made once by openssl, valid for a
hundred years, trusted only by the tests that name it.
"""

from dataclasses import dataclass
from pathlib import Path

_AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIBpDCCAUugAwIBAgIUSFqQaWiij6Ea4g4rOUnbMxvLsX0wCgYIKoZIzj0EAwIw
HzEdMBsGA1UEAwwUVGVzdHMnIG93biBhdXRob3JpdHkwIBcNMjYxMTIxMDYzMTM0
WhgPMjEyNjEwMjgwNjMxMzRaMB8xHTAbBgNVBAMMFFRlc3RzJyBvd24gYXV0aG9y
aXR5MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEpKkv4Nsl2yWFgfIqGMX1BrIO
TmkeJyXI29X+nn4QqJ2CGV8Uwpmir8czkLKiq0CXR7qQFIa+6fXBSbJqbeNMhKNj
MGEwHQYDVR0OBBYEFAKjGX8L+orzb5bUDjXFTfU9kLKMMB8GA1UdIwQYMBaAFAKj
GX8L+orzb5bUDjXFTfU9kLKMMA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQD
AgIEMAoGCCqGSM49BAMCA0cAMEQCIAcGEL0nHwHAHZp59k8TcLqtvVurrOdxZ4GP
dulchwkXAiBfeeTAQP/aslaWfFSIbPfnYAbXIDwb5onLXcknCAMoYg==
-----END CERTIFICATE-----
"""

_CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBtDCCAVugAwIBAgIUZzxMGR1J+NG8RYjkabn+PdihqBkwCgYIKoZIzj0EAwIw
HzEdMBsGA1UEAwwUVGVzdHMnIG93biBhdXRob3JpdHkwIBcNMjYxMTIxMDYzMTM0
WhgPMjEyNjEwMjgwNjMxMzRaMBQxEjAQBgNVBAMMCTEyNy4wLjAuMTBZMBMGByqG
SM49AgEGCCqGSM49AwEHA0IABCEiE2Mlx5WvuNx6tyu5/dYBppVoqWbVFe2huhM/
dxRwwFYyrPm8cYhhLum+C3aVYEfbhp+eiCmDMdkIjoVT+q2jfjB8MBoGA1UdEQQT
MBGHBH8AAAGCCWxvY2FsaG9zdDAJBgNVHRMEAjAAMBMGA1UdJQQMMAoGCCsGAQUF
BwMBMB0GA1UdDgQWBBREtgqQOfU3KolFJrblbo3SI9i+5zAfBgNVHSMEGDAWgBQC
oxl/C/qK82+W1A41xU31PZCyjDAKBggqhkjOPQQDAgNHADBEAiBoUWVI1HpEZu8l
oCXvYI9ZkYiMWudwCKMvdtuKHi1W0gIgbUgEq38VVP8z9H8BQVCTI3PaqN6tZ/Pd
fEILXVAjvU0=
-----END CERTIFICATE-----
"""

_KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg+Rv0p3+Vxt2GwxFL
+kG4pAE1wpVUL7xMM9/RwPMNiryhRANCAAQhIhNjJceVr7jcercruf3WAaaVaKlm
1RXtoboTP3cUcMBWMqz5vHGIYS7pvgt2lWBH24afnogpgzHZCI6FU/qt
-----END PRIVATE KEY-----
"""


@dataclass(frozen=True, slots=True)
class SignedCertificate:
    """Files of a certificate, its key, and the authority that signed it."""

    certificate: Path
    key: Path
    authority: Path


def signed_certificate(folder: Path) -> SignedCertificate:
    """Write the certificate and what belongs to it."""
    found = SignedCertificate(
        folder / "leaf.pem", folder / "leaf-key.pem", folder / "authority.pem"
    )
    found.certificate.write_text(_CERTIFICATE)
    found.key.write_text(_KEY)
    found.authority.write_text(_AUTHORITY)
    return found
