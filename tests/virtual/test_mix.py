"""A mix of models sends each model the queries that the seed plans, on the virtual clock."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer_api.scenarios.step_setting import Closed
from inferometer_loadgen.record.histogram import Histogram
from inferometer_loadgen.record.recorder import StepStatistics
from inferometer_loadgen.schedule.arrivals import Stream
from inferometer_loadgen.schedule.model_choice import model_choices
from inferometer_loadgen.schedule.steps import StepPlan
from support.drills import A_STEP, BAD, CUT, Drill, after
from support.simulated import MILLISECOND, SECOND, Answer

SEED = 2_611
SHARES = (0.6, 0.3, 0.1)
SLOWNESS = (MILLISECOND, 3 * MILLISECOND, 8 * MILLISECOND)
STEP = replace(A_STEP, seed=SEED, min_duration_ns=4 * SECOND)


def planned(queries: int, server: int = 0) -> list[int]:
    """Return the models of a server's first queries of the window."""
    return list(islice(model_choices(SHARES, SEED, Stream.MEASURED, server), queries))


def counts_of(tallied: StepStatistics) -> dict[str, int]:
    """Return how many queries to each model were answered or failed."""
    return {each.model: each.latency.count + each.errors.total() for each in tallied.models}


def counted(models: Sequence[int]) -> dict[str, int]:
    """Return how often each model is chosen."""
    counts = Counter(models)
    return {f"m{n}": counts[n] for n in range(len(SHARES))}


@pytest.mark.parametrize("milli_qps", [None, 200_000])
@pytest.mark.parametrize("warm_up_ns", [0, SECOND])
def test_counts_are_those_of_the_plan(milli_qps: int | None, warm_up_ns: int) -> None:
    """Each model gets exactly the queries that the seed plans, whatever the warm-up."""
    step = replace(STEP, warm_up_ns=warm_up_ns, loop=Closed(clients=3))
    drill = Drill(after(5 * MILLISECOND), step, milli_qps, connections=20, shares=SHARES)
    tallied = drill.run()
    assert tallied.latency.count >= 800
    assert counts_of(tallied) == counted(planned(tallied.latency.count))
    sent = [each.request.decode() for each in drill.server.sent if each.at_ns >= warm_up_ns]
    assert sent[: len(planned(800))] == [f"m{n}" for n in planned(800)]


def test_replicas_have_plans_of_their_own() -> None:
    """Each of two servers gets the models of its own plan, whichever query comes first."""
    drill = Drill(
        after(MILLISECOND), STEP, 200_000, connections=5, shares=SHARES, others=[after(MILLISECOND)]
    )
    drill.run()
    for number, server in enumerate(drill.servers):
        assert [each.request.decode() for each in server.sent] == [
            f"m{n}" for n in planned(len(server.sent), number)
        ]


@settings(max_examples=25, deadline=None)
@given(
    delays=st.lists(st.integers(2 * MILLISECOND, 40 * MILLISECOND), min_size=1, max_size=40),
    failing=st.sets(st.integers(0, 500), max_size=30),
    milli_qps=st.sampled_from([None, 150_000]),
    clients=st.integers(1, 4),
)
def test_latencies_by_model_merge_to_the_total(
    delays: list[int], failing: set[int], milli_qps: int | None, clients: int
) -> None:
    """The histograms of all models add up to the step's, and so do failures, in every loop."""

    def answering(index: int, _: int) -> Answer:
        return Answer(delays[index % len(delays)], BAD if index in failing else None)

    step = replace(STEP, min_duration_ns=SECOND, loop=Closed(clients=clients))
    tallied = Drill(answering, step, milli_qps, connections=4, shares=SHARES).run()
    total = Histogram()
    for each in tallied.models:
        total.merge(each.latency)
    assert total.distribution() == tallied.latency.distribution()
    assert sum((each.errors for each in tallied.models), Counter()) == tallied.errors


@pytest.mark.parametrize("milli_qps", [None, 100_000])
def test_latencies_are_those_of_the_model(milli_qps: int | None) -> None:
    """A slow model is slow in its own figures alone."""
    models = planned(5000)
    drill = Drill(
        lambda index, _: Answer(SLOWNESS[models[index]]),
        STEP,
        milli_qps,
        connections=100,
        shares=SHARES,
    )
    for each, slowness in zip(drill.run().models, SLOWNESS, strict=True):
        assert (each.latency.min_ns, each.latency.max_ns) == (slowness, slowness)


def test_queries_that_fail_unsent_keep_their_place_in_the_plan() -> None:
    """While no connection is open for 2 s, queries fail unsent, of the models that were due."""
    drill = Drill(after(MILLISECOND), STEP, 100_000, timeout_ns=SECOND // 2, shares=SHARES)
    tallied = drill.run(
        {
            SECOND: lambda drill: drill.server.lose(CUT),
            3 * SECOND: lambda drill: drill.server.come_back(),
        }
    )
    assert tallied.errors["timeout"] > 100
    assert len(drill.server.sent) < tallied.scheduled - 100
    assert counts_of(tallied) == counted(planned(tallied.scheduled))


def test_replies_are_checked_against_their_own_model() -> None:
    """What the check of one model finds is an error of that model alone."""
    drill = Drill(after(MILLISECOND), STEP, shares=SHARES, model_faults=["", "Wrong.", ""])
    errors = [dict(each.errors) for each in drill.run().models]
    assert errors[0] == errors[2] == {}
    assert errors[1]["content"] > 0


def test_the_choice_depends_on_seed_and_weights_alone() -> None:
    """Two steps of one seed choose alike, whatever rate and servers; another seed differs."""

    def order(step: StepPlan, milli_qps: int) -> list[bytes]:
        drill = Drill(after(MILLISECOND), step, milli_qps, connections=9, shares=SHARES)
        drill.run()
        return [each.request for each in drill.server.sent][:200]

    assert order(STEP, 100_000) == order(STEP, 300_000)
    assert order(STEP, 100_000) != order(replace(STEP, seed=SEED + 1), 100_000)


def test_shares_are_met_in_the_long_run() -> None:
    """Of 100,000 choices each model has its share within half a percent."""
    counts = counted(planned(100_000))
    for share, count in zip(SHARES, counts.values(), strict=True):
        assert abs(count / 100_000 - share) < 0.005
