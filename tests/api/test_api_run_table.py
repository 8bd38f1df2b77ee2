"""Does a real API server judge runs as pydantic does, under strict field validation?"""

import json
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from inferometer_api.spec.run import BenchmarkRun
from support.api_client import AnswerError, Api, path_of
from support.cluster.control_plane import ControlPlane
from support.cluster.namespaces import fresh_namespace
from support.run_table import UPDATES, rows
from support.runs import Row, an_external_run

_STRICT = {"fieldValidation": "Strict", "fieldManager": "tests"}


@pytest.fixture(scope="module")
def place(api: Api, api_server: ControlPlane) -> Iterator[str]:
    """Make one namespace for all rows."""
    with fresh_namespace(api_server) as name:
        yield path_of("BenchmarkRun", name)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_a_new_run_is_judged_as_pydantic_does(api: Api, place: str, row: Row) -> None:
    """The API server takes a valid run and refuses any other, and so does pydantic."""
    refusal = _refusal(api, "POST", place, row.sent)
    assert refusal is None or refusal.code in {400, 422}, refusal
    try:
        BenchmarkRun.model_validate(json.loads(row.sent))
        understood = True
    except ValidationError:
        understood = False
    assert (refusal is None, understood) == (row.valid, row.valid)


@pytest.mark.parametrize("row", UPDATES, ids=lambda row: row.name)
def test_a_change_of_a_run_is_taken_where_it_may_be(api: Api, place: str, row: Row) -> None:
    """What is immutable stays so; suspend, cancel and retention can be changed."""
    name = f"update-{UPDATES.index(row)}"
    before = {**(row.before or {}), "metadata": {"name": name}}
    made = api.ask("POST", place, before, query=_STRICT)
    changed = {**json.loads(row.sent), "metadata": made["metadata"]}
    refusal = _refusal(api, "PUT", f"{place}/{name}", json.dumps(changed))
    assert (refusal is None) == row.valid
    if refusal is not None:
        assert refusal.code == 422
        assert (row.path or "").removeprefix("spec.") in str(refusal)


def test_a_password_in_an_address_is_not_told(api: Api, place: str) -> None:
    """The API server says which part is wrong, and nothing of what stands there."""
    url = "http://user:secret@h:1"
    run = an_external_run(server={"runtime": "External", "external": {"url": url}})
    refusal = _refusal(api, "POST", place, json.dumps(run))
    assert "must hold no user and no password" in str(refusal)
    assert "secret" not in str(refusal)


def _refusal(api: Api, method: str, path: str, body: str) -> AnswerError | None:
    try:
        api.ask(method, path, body, query={**_STRICT, "dryRun": "All"})
    except AnswerError as error:
        return error
    return None


def test_kubectl_explain_describes_every_field(api: Api, api_server: ControlPlane) -> None:
    """Each field of spec and status has a description in `kubectl explain`."""
    for root in ("spec", "status"):
        told = api_server.kubectl("explain", f"benchmarkruns.{root}", "--recursive=false")
        assert told.count("<no description>") == 0, told
    told = api_server.kubectl("explain", "bmr.spec.validity.minQueries")
    assert "DESCRIPTION" in told
    assert "quer" in told.partition("DESCRIPTION")[2]
