"""Sampling of a launched server's outputs: replies to the same inputs in every run."""

from inferometer_api.results.result import OutputSamples
from inferometer_loadgen.drive.first_requests import NoAnswerError, send_first_requests
from inferometer_loadgen.drive.prepare import encoder_of, opener
from inferometer_loadgen.requests.inputs import Array, RandomSource
from inferometer_loadgen.requests.output_values import output_samples, read_values
from inferometer_loadgen.requests.pool import InputSources
from inferometer_loadgen.run.executor import RunContext
from inferometer_loadgen.server.control_plane import ServerDescription
from inferometer_loadgen.wire.connection import prepare
from inferometer_loadgen.wire.contract import ConnectionFailedError

SAMPLES = 8
_SEED = 20_260_101
"""Of the inputs in every run, whatever its own seed."""
_MOST_SECONDS = 5.0
"""If further inputs would take longer, only one is sent."""
_FAULTS = (ConnectionFailedError, NoAnswerError, ValueError, LookupError, OSError)


async def sample_outputs(run: RunContext, found: ServerDescription) -> OutputSamples | None:
    """Return the first server's outputs for a few inputs; None if it has none to compare.

    The inputs are those of the run's file, else random ones of a fixed seed. Servers that the run
    did not launch get no request but those of the spec, and a cold start begins with its own.
    """
    plan = run.plan
    spec = plan.run.spec
    if not plan.launched or any(each.load_profile.creates_servers for each in spec.scenarios):
        return None
    if spec.model.runs_steps_in_server:
        return None  # random tensors are no samples
    try:
        return await _sample(run, found)
    except _FAULTS:
        return None  # the first requests of the scenario report what is wrong


async def _sample(run: RunContext, found: ServerDescription) -> OutputSamples | None:
    plan, load = run.plan, run.plan.run.spec.load
    sources = InputSources(load, plan.inputs_file, found.inputs, found.optional_inputs, run.files)
    source = sources.source(1, _SEED)
    if isinstance(source, RandomSource):
        source = source.resized(SAMPLES)
    inputs = [source.request(index) for index in range(min(SAMPLES, source.count))]
    target = run.servers.targets()[0]
    encoder = encoder_of(plan, found)
    requests = [prepare(target, encoder.encode(each), share_body=False) for each in inputs]
    replies: list[dict[str, Array]] = []
    while len(replies) < len(requests):
        # The first one alone: it shows how many more there is time for.
        part = requests[len(replies) :] if replies else requests[:1]
        answers = await send_first_requests(
            opener(target, 1),
            part,
            load.request_timeout_milliseconds / 1000,
            "of the sampled outputs",
            run.on_first_query,
            len(part),
        )
        if len(answers.replies) < len(part):
            return None
        replies += [read_values(load.protocol, each) for each in answers.replies]
        if sum(answers.latencies_ns) * (len(requests) - 1) > _MOST_SECONDS * 1e9:
            break
    return output_samples(inputs[: len(replies)], replies)
