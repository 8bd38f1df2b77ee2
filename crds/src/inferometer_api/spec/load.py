"""The load of a spec: protocol, connections, seed, inputs and credentials of the requests."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from inferometer_api import patterns
from inferometer_api.document import (
    DnsSubdomain,
    Document,
    FilePath,
    Integral,
    NullsAbsent,
    Sha256,
)
from inferometer_api.rules import Rule, exactly_one, not_both
from inferometer_api.spec.checksum import needs_checksum

Protocol = Literal["HTTP", "GRPC"]

_Dimension = Annotated[int, Field(ge=1, le=2**31 - 1), Integral]
_Shape = Annotated[list[_Dimension], Field(max_length=16)]
_Host = Annotated[str, StringConstraints(max_length=253, pattern=patterns.HOST)]
_TensorName = Annotated[str, Field(min_length=1, max_length=253)]


class RandomInputs(Document):
    """Seeded random tensors that fit the model's metadata."""

    pool_size: Annotated[int, Field(ge=1, le=4096), Integral] = 16
    """Number of different requests. They are encoded once and sent in turn."""

    shapes: Annotated[dict[_TensorName, _Shape], NullsAbsent] = Field(
        default_factory=dict, max_length=64
    )
    """Full shapes of inputs with open axes: {"input": [1, 3, 48, 192]}. If the first axis of the \
model is open it is the batch axis, and the scenario's batch size replaces it."""


class FileInputs(Document):
    """Tensors from a .npz file."""

    uri: Annotated[
        str,
        StringConstraints(
            min_length=1,
            max_length=2048,
            pattern=patterns.DATA_URI,
        ),
    ]
    """Address of a .npz file with one array for each input, whose first axis counts the samples: \
`file:PATH` in local runs, `configmap://NAME/KEY`, `pvc://CLAIM/PATH`, `https://...` or, with the \
keys of the model's store, `s3://BUCKET/KEY`. ConfigMaps and claims must carry the label \
inferometer.dev/allow-use=true."""

    sha256: Sha256 | None = None
    """SHA-256 of the file in 64 lower-case hexadecimal digits. Checked before use; required with \
https://."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        needs_checksum("a file", lambda file: (file.uri, file.sha256)),
    )


class Inputs(Document):
    """Content of the requests. Set exactly one member."""

    random: RandomInputs | None = None
    """Seeded random tensors that fit the model's metadata."""

    file: FileInputs | None = None
    """Tensors from a .npz file."""

    constraints: ClassVar[tuple[Rule, ...]] = (exactly_one(("random", "file")),)


class Tls(Document):
    """Certificates for a server with TLS: Secrets in a cluster, files in local runs."""

    ca_secret: DnsSubdomain | None = None
    """Secret whose ca.crt signed the server's certificate. It must carry the label \
inferometer.dev/allow-use=tls."""

    client_secret: DnsSubdomain | None = None
    """Secret with tls.crt and tls.key of the client. It must carry the label \
inferometer.dev/allow-use=tls."""

    server_name: _Host | None = None
    """Name that the server's certificate must contain. Absent: the host of the connection."""

    ca_file: FilePath | None = None
    """Local runs: PEM file of the authority that signs the server's certificate."""

    client_certificate_file: FilePath | None = None
    """Local runs: PEM file of the client's certificate."""

    client_key_file: FilePath | None = None
    """Local runs: PEM file of the client's key."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.clientCertificateFile) == has(self.clientKeyFile)",
            message="clientCertificateFile and clientKeyFile belong together",
            holds=lambda tls: (
                (tls.client_certificate_file is None) == (tls.client_key_file is None)
            ),
        ),
        not_both("caSecret", "caFile"),
        not_both("clientSecret", "clientCertificateFile"),
    )


class Tracing(Document):
    """Which queries are traced, and who else may add spans."""

    sample_every: Annotated[int, Field(ge=1, le=1_000_000), Integral]
    """Trace every Nth query of each window: it carries the header traceparent of W3C Trace \
Context (metadata with GRPC), and the result shows where its time went. 100 costs less than 1 % of \
latency."""

    receiver_port: Annotated[int, Field(ge=1, le=65_535), Integral] | None = None
    """Port at which the load generator takes spans of other servers by OTLP/HTTP (POST \
/v1/traces, protobuf or JSON) during the run: of 127.0.0.1 in a local run, and in a cluster of the \
Service load-NAME of the run. 4318 is the usual one. Servers that the run starts are given the \
address. Absent: none; the runtimes OnnxRuntime and OpenVino need none."""


class Load(Document):
    """How requests are sent."""

    protocol: Protocol = "HTTP"
    """HTTP or GRPC, both in the Open Inference Protocol v2."""

    connections: Annotated[int, Field(ge=1, le=10_000), Integral] = 8
    """Connections to each server. An HTTP connection carries one request at a time; a query that \
finds none free waits, and the wait counts as latency. Closed loops with one outstanding query use \
one connection. Each worker has at least one."""

    streams_per_connection: Annotated[int, Field(ge=1, le=10_000), Integral] = 32
    """Outstanding requests per connection, with GRPC."""

    workers: Annotated[int, Field(ge=1, le=1000), Integral] = 1
    """Load generator processes that share one schedule. More than 1 is a fleet: in a cluster one \
pod per worker, and one for their master."""

    seed: Annotated[int, Field(ge=0, le=2**32 - 1), Integral] = 42
    """Seed of the schedule and of random inputs. The same seed gives the same schedule."""

    pacing: Literal["Timer", "Spin"] = "Timer"
    """Timer: sleep until a query is due. Spin: busy-wait on one core, which is more punctual."""

    request_timeout_milliseconds: Annotated[int, Field(ge=1, le=3_600_000), Integral] = 60_000
    """Milliseconds after which a query counts as an error of kind "timeout"."""

    reconnect_deadline_seconds: Annotated[int, Field(ge=1, le=3_600), Integral] = 3
    """Seconds that a server may be without any connection. After that the run is Failed \
(ServerLost); what was measured until then is kept. Raise it to measure through a restart."""

    tensors: Literal["Auto", "Binary", "Json"] = "Auto"
    """How HTTP carries tensors. Auto: as binary data if the server's metadata list the extension \
binary_tensor_data, else as JSON, which costs both sides more CPU. Binary and Json: this way in \
any case. GRPC always carries binary data."""

    compression: Literal["None", "Gzip", "Deflate"] = "None"
    """Compression of messages with GRPC. Gzip and Deflate: requests are compressed, once and \
before the measurement, and the server may compress its replies in the same way. None: no reply \
is compressed either."""

    inputs: Inputs = Field(default_factory=lambda: Inputs(random=RandomInputs()))
    """Content of the requests."""

    tls: Tls | None = None
    """Certificates for an External server with TLS. With server.external.service this switches to \
https:// or grpcs://; a url selects TLS by its scheme."""

    headers_secret: DnsSubdomain | None = None
    """Secret whose entries are sent as headers (metadata with GRPC) of each request. It must \
carry the label inferometer.dev/allow-use=headers."""

    headers_file: FilePath | None = None
    """Local runs: file of `Name: value` lines, sent as headers of each request."""

    tracing: Tracing | None = None
    """Traces a sample of the queries through client and server. Absent: none."""

    @property
    def receiver_port(self) -> int | None:
        """Where the load generator takes spans of other servers; None if it takes none."""
        return None if self.tracing is None else self.tracing.receiver_port

    constraints: ClassVar[tuple[Rule, ...]] = (
        not_both("headersSecret", "headersFile"),
        Rule(
            cel="!has(self.tracing) || self.workers == 1",
            message="tracing is for one worker: set workers to 1 or leave tracing out",
            holds=lambda load: load.tracing is None or load.workers == 1,
            field="tracing",
            found=lambda load: f"{load.workers} workers",
        ),
        Rule(
            cel="self.tensors != 'Json' || self.protocol == 'HTTP'",
            message="Json is only for protocol HTTP",
            holds=lambda load: load.tensors != "Json" or load.protocol == "HTTP",
            field="tensors",
        ),
        Rule(
            cel="self.compression == 'None' || self.protocol == 'GRPC'",
            message="compression is only for protocol GRPC",
            holds=lambda load: load.compression == "None" or load.protocol == "GRPC",
            field="compression",
        ),
    )
