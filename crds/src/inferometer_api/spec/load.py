"""How is the load sent: protocol, connections, seed, inputs, credentials?"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from inferometer_api import patterns
from inferometer_api.document import DnsSubdomain, Document, FilePath, Integral, NullsAbsent
from inferometer_api.rules import Rule, exactly_one, not_both

Protocol = Literal["HTTP", "GRPC"]

_Dimension = Annotated[int, Field(ge=1, le=2**31 - 1), Integral]
_Shape = Annotated[list[_Dimension], Field(max_length=16)]
_Host = Annotated[str, StringConstraints(max_length=253, pattern=patterns.HOST)]
_TensorName = Annotated[str, Field(min_length=1, max_length=253)]


class RandomInputs(Document):
    """Seeded random tensors that fit the model's metadata."""

    pool_size: Annotated[int, Field(ge=1, le=4096), Integral] = 16
    """How many different requests are made; they are encoded once and sent in turn."""

    shapes: Annotated[dict[_TensorName, _Shape], NullsAbsent] = Field(
        default_factory=dict, max_length=64
    )
    """The whole shape of an input whose axes are open: {"input": [1, 3, 48, 192]}. Where the \
model's first axis is open it is the batch axis, and the scenario's batch size takes its place."""


class FileInputs(Document):
    """Tensors of one's own."""

    uri: Annotated[
        str,
        StringConstraints(
            min_length=1,
            max_length=2048,
            pattern=patterns.DATA_URI,
        ),
    ]
    """A .npz file with one array for each input, whose first axis counts the samples: \
`file:PATH` in local runs, `configmap://NAME/KEY`, `pvc://CLAIM/PATH`, `https://...` or, with the \
keys of the model's store, `s3://BUCKET/KEY`. ConfigMaps and claims must carry the label \
inferometer.dev/allow-use=true."""


class Inputs(Document):
    """What is sent. Set exactly one member."""

    random: RandomInputs | None = None
    """Seeded random tensors that fit the model's metadata."""

    file: FileInputs | None = None
    """Tensors from a .npz file."""

    constraints: ClassVar[tuple[Rule, ...]] = (exactly_one(("random", "file")),)


class Tls(Document):
    """Certificates for a server that speaks TLS: Secrets in a cluster, files in local runs."""

    ca_secret: DnsSubdomain | None = None
    """Secret whose ca.crt signs the server's certificate. It must carry the label \
inferometer.dev/allow-use=true."""

    client_secret: DnsSubdomain | None = None
    """Secret with tls.crt and tls.key of the client. It must carry the label \
inferometer.dev/allow-use=true."""

    server_name: _Host | None = None
    """The name that the server's certificate must carry; absent: the host connected to."""

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


class Load(Document):
    """How requests are sent."""

    protocol: Protocol = "HTTP"
    """HTTP or GRPC, both in the Open Inference Protocol v2."""

    connections: Annotated[int, Field(ge=1, le=10_000), Integral] = 8
    """Connections to each server. The layout changes what is measured: an HTTP connection carries \
one request at a time, and a query that finds none free waits, which counts as latency. \
Closed loops with one query outstanding use one of them. Each of several workers has one at \
least: fewer than `workers` are raised to as many."""

    streams_per_connection: Annotated[int, Field(ge=1, le=10_000), Integral] = 32
    """Requests that may be outstanding on one connection, with GRPC."""

    workers: Annotated[int, Field(ge=1, le=1000), Integral] = 1
    """Load generator processes that share one schedule: 1 is a single one, more are a fleet, in a \
cluster a pod each, beside one that leads them."""

    seed: Annotated[int, Field(ge=0, le=2**32 - 1), Integral] = 42
    """Seed of the schedule and of random inputs. The same seed gives the same schedule, byte for \
byte."""

    pacing: Literal["Timer", "Spin"] = "Timer"
    """Timer sleeps until a query is due; Spin burns a core to be more punctual."""

    request_timeout_milliseconds: Annotated[int, Field(ge=1, le=3_600_000), Integral] = 60_000
    """Past it a query counts as an error of kind "timeout"."""

    inputs: Inputs = Field(default_factory=lambda: Inputs(random=RandomInputs()))
    """What is sent."""

    tls: Tls | None = None
    """Certificates, where an External server speaks TLS. A Service of the run's namespace is then \
asked by https:// or grpcs://; a url says by itself that TLS is spoken."""

    headers_secret: DnsSubdomain | None = None
    """Secret whose entries are sent as headers (metadata with GRPC) of each request. It must \
carry the label inferometer.dev/allow-use=true."""

    headers_file: FilePath | None = None
    """Local runs: file of `Name: value` lines, sent as headers of each request."""

    constraints: ClassVar[tuple[Rule, ...]] = (not_both("headersSecret", "headersFile"),)
