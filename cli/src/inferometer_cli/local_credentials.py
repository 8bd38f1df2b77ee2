"""Which certificates and headers does a local run use, and can they be used at all?

Asked before anything is started, with the load generator's own rules.
"""

from pathlib import Path

from inferometer_api.plan.credentials import Credentials
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import RefusedError
from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.server.headers import read_headers
from inferometer_loadgen.wire.tls import TlsFiles, TlsRefusedError, tls_context


def credentials(run: BenchmarkRun, base: Path) -> Credentials:
    """Return the files that a run names; a relative path begins in the folder `base`.

    Raises RefusedError where one is missing or holds something else.
    """
    load = run.spec.load
    tls = load.tls
    headers = _path(load.headers_file, base)
    authority, certificate, key = (
        _path(each, base)
        for each in (
            (None, None, None)
            if tls is None
            else (tls.ca_file, tls.client_certificate_file, tls.client_key_file)
        )
    )
    try:
        if headers is not None:
            read_headers(headers)
        if tls is not None:
            tls_context(load.protocol, TlsFiles(authority, certificate, key))
    except (InputRefusedError, TlsRefusedError) as refusal:
        raise RefusedError(str(refusal)) from refusal
    paths = (authority, certificate, key, headers)
    return Credentials(*(None if path is None else str(path) for path in paths))


def _path(name: str | None, base: Path) -> Path | None:
    return None if name is None else base / name
