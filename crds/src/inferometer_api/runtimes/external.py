"""External: a server that already runs, whatever program it is."""

from inferometer_api.runtimes.descriptor import Refusal, RuntimeDescriptor
from inferometer_api.spec.server import Server


def _service(server: Server) -> str | None:
    if server.external is None or server.external.service is None:
        return None
    return "a local run has no Services; give the server's address as a url"


def _without_tls(server: Server) -> str | None:
    url = None if server.external is None else server.external.url
    if url is None or url.startswith(("https://", "grpcs://")):
        return None
    scheme = url.partition("://")[0]
    return (
        f"the server's url begins with {scheme}://, which is without TLS; write {scheme}s:// in "
        "spec.server.external.url, or leave tls out"
    )


EXTERNAL = RuntimeDescriptor(
    launch=None,
    refusals=(Refusal("spec.server.external.service", "Local", _service),),
    without_tls=_without_tls,
    # It may be a server of ours, which reports these parameters.
    restart_identity=("instance_id", "process_id"),
)
