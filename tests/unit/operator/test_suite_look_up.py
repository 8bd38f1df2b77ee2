"""The look-up of stored results for a suite: once, before it begins, and again by an heir."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from inferometer_api.status.run_status import ScenarioSummary
from inferometer_api.suite.plan_suite import SuitePlan
from inferometer_api.suite.reuse import ReusableResult, ReuseAnswer, ReuseRequest
from inferometer_api.suite.status import SuiteStatus
from inferometer_operator.cluster.results_client import DeliveryError
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.suite.reuse import SuiteReuse
from support.suites import a_suite, planned

_IMAGE = f"registry.test/image@sha256:{'a' * 64}"
_SUITE = {"metadata": {"name": "nightly", "namespace": "bench"}}
NOW = datetime(2026, 6, 1, 3, tzinfo=UTC)


@dataclass
class _Service:
    """Answers each question with one result for its first query, or with a fault."""

    faults: list[str] = field(default_factory=list)
    queried: list[ReuseRequest] = field(default_factory=list)

    async def find_reusable(self, namespace: str, request: ReuseRequest) -> ReuseAnswer:
        """Return the results of a namespace."""
        assert namespace == "bench"
        self.queried.append(request)
        if self.faults:
            raise DeliveryError(self.faults.pop(), refused=False)
        figures = ScenarioSummary(name="latency", verdict="VALID", p50_microseconds=900)
        known = ReusableResult(id="r1", run="old", started_at="2026-05-01", scenarios=[figures])
        return ReuseAnswer(results=[[known], *([] for _ in request.queries[1:])])


class _Reader:
    async def list_nodes(self) -> tuple[dict[str, Any], ...]:
        return ({"metadata": {"name": "node-a"}},)


def _dependencies(service: _Service | None) -> Dependencies:
    images = {"serving": _IMAGE, "servingGpu": _IMAGE, "loadgen": _IMAGE}

    @dataclass
    class _Some:
        results: _Service | None
        reader: _Reader
        settings: Settings

        def now(self) -> datetime:
            return NOW

    return cast(
        "Dependencies", _Some(service, _Reader(), Settings.model_validate({"images": images}))
    )


def _looked_up(
    reuse: SuiteReuse, service: _Service | None, plan: SuitePlan, status: SuiteStatus
) -> str:
    return asyncio.run(reuse.look_up(_dependencies(service), _SUITE, plan, status))


def test_the_service_is_queried_once_and_again_only_after_a_fault() -> None:
    """The fault is a sentence for the condition; the outcome has the figures of the result."""
    plan, reuse, service = planned(a_suite()), SuiteReuse(), _Service(["It does not answer."])
    assert _looked_up(reuse, service, plan, SuiteStatus()) == "It does not answer."
    assert reuse.outcomes == {}
    assert _looked_up(reuse, service, plan, SuiteStatus()) == ""
    assert _looked_up(reuse, service, plan, SuiteStatus()) == ""
    assert len(service.queried) == 2
    (outcome,) = reuse.outcomes.values()
    assert (outcome.state, outcome.result) == ("R", "r1")
    assert outcome.scenarios[0].p50_microseconds == 900
    assert service.queried[1].stored_before == "2026-06-01T03:00:00.000Z"


def test_an_operator_that_takes_over_looks_up_what_was_stored_when_the_suite_began() -> None:
    """Only if a run is reused; afterwards nothing more is."""
    plan, service = planned(a_suite()), _Service()
    began = SuiteStatus(start_time="2026-05-31T00:00:00.000Z", states="..")
    assert _looked_up(SuiteReuse(), service, plan, began) == ""
    assert service.queried == []
    heir = SuiteReuse()
    assert _looked_up(heir, service, plan, began.model_copy(update={"states": "R."})) == ""
    assert [each.stored_before for each in service.queried] == [began.start_time]
    assert len(heir.outcomes) == 1


def test_without_a_service_nothing_is_known() -> None:
    """A suite that began with one goes on without its figures."""
    fault = _looked_up(SuiteReuse(), None, planned(a_suite()), SuiteStatus(states="R."))
    assert fault == "The operator has no results service."
