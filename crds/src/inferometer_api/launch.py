"""With which command lines and which plan is a run launched?

The same here for a laptop and a cluster, so that their results differ only in where they ran. No
process is started here.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal
from urllib.parse import unquote

from inferometer_api.plan import LoadPlan, PlannedServer
from inferometer_api.resolve import launched
from inferometer_api.run import BenchmarkRun


def server_model_name(run: BenchmarkRun) -> str:
    """Return what the server calls the model.

    An External server's own name for it, else the last part of the model's address without
    .onnx: "resnet50" for zoo://classification/resnet50.
    """
    if run.spec.model.name is not None:
        return run.spec.model.name
    address = (run.spec.model.uri or "").partition(":")[2].partition("?")[0].partition("#")[0]
    last = unquote(address.rstrip("/").rpartition("/")[2]).removesuffix(".onnx")
    # The name is a part of the server's URLs.
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", last).strip("-.") or "model"


def request_batch_sizes(run: BenchmarkRun) -> tuple[int, ...]:
    """Return how many samples the requests of all scenarios carry, ascending, each once."""
    sizes = {size for scenario in run.spec.scenarios for size in scenario.batch_sizes_sent}
    return tuple(sorted(sizes))


def fetch_command(
    run: BenchmarkRun, *, base: str, destination: str, python: str
) -> tuple[str, ...]:
    """Return the command line that fetches and checks the model of a launched server.

    `base` is the folder that a relative `file:` begins in; `destination` a folder for what has to
    be written. It prints one line of JSON: path, sha256, name.
    """
    model = run.spec.model
    if model.uri is None:
        raise ValueError("An External server has its model already: nothing is fetched for it.")
    checksum = ("--sha256", model.sha256) if model.sha256 else ()
    return (
        python,
        *("-m", "inferometer_serving.fetcher"),
        *("--uri", model.uri),
        *("--destination", destination),
        *("--relative-to", base),
        *checksum,
    )


def server_command(
    run: BenchmarkRun,
    *,
    model_path: str,
    python: str,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> tuple[str, ...]:
    """Return the command line of the server of a resolved run, on ports that it chooses itself.

    `shapes` are the whole shapes of inputs with open axes; None takes those of random inputs. A
    caller that sends a file's tensors knows theirs.
    """
    server = run.spec.server
    if not launched(run.spec) or server.threads is None:
        raise ValueError("Only a resolved run whose server is not External has a server to start.")
    random = run.spec.load.inputs.random
    if shapes is None:
        shapes = random.shapes if random is not None else {}
    warm_up = [
        ("--warm-up-shape", f"{name}={','.join(map(str, shape))}")
        for name, shape in shapes.items()
        if shape  # a scalar has no axis to give
    ]
    return (
        python,
        *("-m", "inferometer_serving"),
        *("--model", model_path),
        *("--model-name", server_model_name(run)),
        *("--device", server.device),
        *("--threads", str(server.threads)),
        *("--http-port", "0"),
        *("--grpc-port", "0"),
        *("--warm-up-batch-sizes", ",".join(map(str, request_batch_sizes(run)))),
        *(word for pair in warm_up for word in pair),
    )


def load_command(python: str) -> tuple[str, ...]:
    """Return the command line of a load generator, which reads a LoadPlan from standard input."""
    return (python, "-m", "inferometer_loadgen")


def load_plan(  # noqa: PLR0913 - each is one fact of the plan, and named
    run: BenchmarkRun,
    *,
    place: Literal["Local", "Cluster"],
    servers: Sequence[PlannedServer],
    model_sha256: str | None = None,
    inputs_file: str | None = None,
    server_process_ids: Sequence[int] = (),
    notes: Sequence[str] = (),
    run_id: str = "",
    stop_token: str = "",
) -> LoadPlan:
    """Return what the load generator of a resolved run is started with.

    The URLs of `servers` are http:// or grpc://, as load.protocol asks; `inputs_file` is the path
    of the .npz file where inputs come from one.
    """
    return LoadPlan(
        run=run,
        place=place,
        launched=launched(run.spec),
        servers=list(servers),
        model_name=server_model_name(run),
        model_version=run.spec.model.version or "",
        model_sha256=model_sha256,
        inputs_file=inputs_file,
        server_process_ids=list(server_process_ids),
        notes=list(notes),
        run_id=run_id,
        stop_token=stop_token,
    )
