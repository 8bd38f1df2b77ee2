"""The load plan: the input of a load generator."""

from typing import Literal, Self

from pydantic import Field

from inferometer_api.document import Count, Document, Integer, Timestamp
from inferometer_api.results.result import ClusterNode
from inferometer_api.spec.run import BenchmarkRun


class ObservedPhase(Document):
    """One phase of a server's start, in Unix time by the clock of the machine that observed it."""

    name: str
    """modelFetched, processStarted, imported, sessionCreated, ..."""
    start_microseconds: Count
    end_microseconds: Count
    evidence: str = ""
    """Where the times come from."""
    resolution_microseconds: Count = 1
    bytes: Count | None = None
    """What was transferred or read, if that is what the phase does."""
    parts: dict[str, Count] = Field(default_factory=dict)
    """Microseconds of its parts that are known."""


class StartEvidence(Document):
    """What is known of a server's start from outside of its process."""

    created_microseconds: Count
    """When its creation began, in Unix time."""
    launched_microseconds: Count | None = None
    """When its process was started."""
    launched_resolution_microseconds: Count | None = None
    """Of that time; absent: that of the phases of the process."""
    ready_microseconds: Count | None = None
    """When it was seen to be ready, if it does not report that itself."""
    phases: list[ObservedPhase] = Field(default_factory=list)
    model_bytes: Count | None = None
    """Size of the model's files before the start; 0 if they were not there."""
    resident_bytes: Count | None = None
    """Bytes of these files that were in memory before the start."""
    residency_unknown: str = ""
    """Why `resident_bytes` is not known: a clause."""
    image_unknown: str = ""
    """Why a phase imagePulled does not prove that the node lacked the image: a clause."""


class PlannedServer(Document):
    """One server, and its pod if it has one."""

    url: str
    """http://, https://, grpc:// or grpcs://, host, port and an optional path."""
    pod: str = ""
    """Name of the pod; empty if there is none or it is not known."""
    pod_uid: str = ""
    node: str = ""
    """The name of the pod's node."""
    quality_of_service: str = ""
    """QoS class of the pod: Guaranteed, Burstable or BestEffort; empty if not known."""
    cluster_node: ClusterNode | None = None
    """What the cluster knows of the node; absent if the operator could not read it."""
    start: StartEvidence | None = None
    """For cold starts."""


class PlannedAgent(Document):
    """The agent of a node with servers, and the workloads to query."""

    url: str
    """http://HOST:PORT."""
    node: str = ""
    pod_uids: list[str] = Field(default_factory=list)
    """The servers' pods on that node."""
    process_ids: list[Integer] = Field(default_factory=list)
    """The servers' processes, if they run on this machine without pods."""


class LoadNodeFault(Document):
    """Why latencies that are measured from a node may be wrong."""

    node: str
    sentence: str
    """Which NodeBenchmark found what, and when."""
    figure: str
    limit: str


class PlannedFleet(Document):
    """Address of the master of a fleet. `load.workers` is the number of workers."""

    host: str = "127.0.0.1"
    """Host of the master. If it is 127.0.0.1, or the master starts its workers, the master \
listens on loopback only; otherwise on every address."""
    port: Integer = 0
    """Port of Locust's master; 0 selects a free one if the master starts its workers."""
    web_port: Integer | None = None
    """Port of Locust's web page; 0 selects a free one. Absent: no web page."""
    starts_workers: bool = True
    """Whether the master starts its workers on this machine; otherwise they are pods."""
    token: str = ""
    """Secret of the fleet: its messages are encrypted with keys that come from it. Empty: the \
master makes one for the workers that it starts."""
    ready_deadline_seconds: Integer = 120
    """Seconds for the workers to connect."""


class ServerTargets(Document):
    """The servers of a repeat, which replace those of the repeat before. Body of POST /targets."""

    repeat: Count
    """The number of the repeat that they are for."""
    servers: list[PlannedServer] = Field(min_length=1)
    agents: list[PlannedAgent] = Field(default_factory=list)
    energy_unavailable_reason: str = ""
    server_process_ids: list[Integer] = Field(default_factory=list)


class LoadPlan(Document):
    """Everything a load generator needs to know."""

    run: BenchmarkRun
    """The run, with every default filled in."""
    place: Literal["Local", "Cluster"]
    launched: bool
    """Whether the server was started for this run."""
    servers: list[PlannedServer] = Field(min_length=1)
    """Servers of the same model, which share the requests evenly."""
    model_name: str
    model_version: str = ""
    model_sha256: str | None = None
    engine_version: str = ""
    """Version of the servers' engine, for servers that do not report it; empty if not known."""
    inputs_file: str | None = None
    """Path of the .npz file with the inputs, if there is one."""
    trace_files: dict[str, str] = Field(default_factory=dict)
    """Path of the CSV file of each `trace` scenario, and of the data set of each `accuracy` \
scenario, by scenario name."""
    manifest_file: str | None = None
    """Path of the model's manifest, if it has one."""
    manifest_sha256: str | None = None
    """Checksum that the file must still have, if it was read before."""
    allow_python_steps: bool = False
    """Whether Python in the manifest may run in the load generator."""
    tls_ca_file: str | None = None
    """Path of the PEM file of the authority that signed the server's certificate."""
    tls_certificate_file: str | None = None
    """Path of the PEM file of the client's certificate."""
    tls_key_file: str | None = None
    headers_file: str | None = None
    """Path of a file of `Name: value` lines, or of a folder with one file per header."""
    fleet: PlannedFleet | None = None
    """Set if load.workers is more than 1."""
    server_process_ids: list[Integer] = Field(default_factory=list)
    """Processes on this machine whose CPU and memory count as the server's."""
    notes: list[str] = Field(default_factory=list)
    """Settings that do not apply here, one sentence each, for the result."""
    agents: list[PlannedAgent] = Field(default_factory=list)
    """Agents of the nodes with servers."""
    energy_unavailable_reason: str = ""
    """Why some server has no agent, so that energy is unavailable: a sentence without its \
period."""
    load_node_faults: list[LoadNodeFault] = Field(default_factory=list)
    """Of nodes that a load pod may run on; one that runs on another node ignores them."""
    run_id: str = ""
    """Unique ID of the execution: in a cluster the UID of the BenchmarkRun."""
    started_at: Timestamp | None = None
    """When the run started. Absent: when its load generator starts."""
    request_log: str | None = None
    """Path of the CSV file to write with one row for each measured query. Not for fleets."""
    stop_token: str = ""
    """Bearer token for POST /stop and POST /targets. Empty disables both."""

    def aimed_at(self, targets: ServerTargets) -> Self:
        """Return the plan with the servers of a further repeat."""
        return self.model_copy(
            update={
                "servers": targets.servers,
                "agents": targets.agents,
                "energy_unavailable_reason": targets.energy_unavailable_reason,
                "server_process_ids": targets.server_process_ids,
            }
        )
