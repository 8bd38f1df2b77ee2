"""What is a load generator started with, and what does it report while it works?

The load generator reads one `LoadPlan` and writes one `Report` a line to its standard output.
"""

from typing import Literal

from pydantic import Field

from inferometer_api.document import Document, Integer, Timestamp
from inferometer_api.spec.run import BenchmarkRun


class PlannedServer(Document):
    """One server, and what is known of the pod it runs in."""

    url: str
    """http://, https://, grpc:// or grpcs://, host, port and an optional path."""
    pod: str = ""
    """The pod's name; empty where it runs in none that is known."""
    pod_uid: str = ""
    node: str = ""
    """The name of the pod's node."""
    quality_of_service: str = ""
    """The pod's class: Guaranteed, Burstable or BestEffort; empty where it is not known."""


class PlannedAgent(Document):
    """The agent of a node that servers run on, and what it is asked for."""

    url: str
    """http://HOST:PORT."""
    node: str = ""
    pod_uids: list[str] = Field(default_factory=list)
    """The servers' pods on that node."""
    process_ids: list[Integer] = Field(default_factory=list)
    """The servers' processes, where they run on this machine without pods."""


class PlannedFleet(Document):
    """Where the workers of a fleet find their master; `load.workers` says how many there are."""

    host: str = "127.0.0.1"
    """Where workers find the master. One that starts its workers itself, or that is found at
127.0.0.1, listens there and nowhere else; else it listens at every address."""
    port: Integer = 0
    """Of Locust's master; 0 is a free one of its own choice, where it starts its workers itself."""
    web_port: Integer | None = None
    """Of Locust's web page; absent: none, 0 is a free one."""
    starts_workers: bool = True
    """Whether the master starts its workers itself, on this machine; else pods are them."""
    ready_deadline_seconds: Integer = 120
    """How long the workers may take to come."""


class LoadPlan(Document):
    """Everything a load generator needs to know."""

    run: BenchmarkRun
    """What is asked, with every default filled in."""
    place: Literal["Local", "Cluster"]
    launched: bool
    """Whether the server was started for this run."""
    servers: list[PlannedServer] = Field(min_length=1)
    """Servers of the same model, among which requests are shared evenly."""
    model_name: str
    model_version: str = ""
    model_sha256: str | None = None
    inputs_file: str | None = None
    """Path of the .npz file, where inputs come from one."""
    trace_files: dict[str, str] = Field(default_factory=dict)
    """Path of the CSV file of each `trace` scenario, by its name."""
    tls_ca_file: str | None = None
    """Path of the PEM file of the authority that signs the server's certificate."""
    tls_certificate_file: str | None = None
    """Path of the PEM file of the client's certificate."""
    tls_key_file: str | None = None
    headers_file: str | None = None
    """Path of a file of `Name: value` lines, or of a folder with one file for each header."""
    fleet: PlannedFleet | None = None
    """Present where load.workers is more than 1."""
    server_process_ids: list[Integer] = Field(default_factory=list)
    """Processes whose CPU and memory count as the server's, where they run on this machine."""
    notes: list[str] = Field(default_factory=list)
    """What was asked and does not apply here; goes into the result."""
    agents: list[PlannedAgent] = Field(default_factory=list)
    """One for each node that servers run on, where it has one."""
    energy_unavailable_reason: str = ""
    """Why not every server has an agent: a sentence without its period. There is no energy then."""
    run_id: str = ""
    """Unique for each execution: in a cluster the UID of the BenchmarkRun."""
    started_at: Timestamp | None = None
    """When the run started. Absent: when its load generator starts."""
    stop_token: str = ""
    """Who knows it may end the load generator by POST /stop; empty: nobody may."""
