"""A real API server judges runs as the table says, under strict field validation."""

import json
from collections.abc import Iterator
from contextlib import suppress

import pytest

from support.api_client import AnswerError, Api, path_of
from support.cluster.control_plane import ControlPlane
from support.cluster.namespaces import fresh_namespace
from support.run_table import UPDATES, rows
from support.runs import Row, an_external_run
from support.waiting import wait_until

_STRICT = {"fieldValidation": "Strict", "fieldManager": "tests"}


@pytest.fixture(scope="module")
def place(api: Api, api_server: ControlPlane) -> Iterator[str]:
    """Make one namespace for all rows."""
    with fresh_namespace(api_server) as name:
        yield path_of("BenchmarkRun", name)


def test_new_runs_are_judged_as_in_the_table(api: Api, place: str) -> None:
    """The API server accepts every valid run of the table and rejects every other one."""
    table = rows()
    assert len(table) > 800
    wrong = []
    for row in table:
        refusal = _refusal(api, "POST", place, row.sent)
        if (refusal is None) != row.valid or (refusal and refusal.code not in {400, 422}):
            wrong.append(f"{row.name}: {refusal or 'accepted'}")
    assert not wrong, "\n".join(wrong)


def test_updates_of_runs_are_judged_as_in_the_table(api: Api, place: str) -> None:
    """Suspend, cancel and retention can change; an update of any other field is rejected."""
    wrong = [f"{row.name}: {found}" for row in UPDATES if (found := _misjudged(api, place, row))]
    assert not wrong, "\n".join(wrong)


def _misjudged(api: Api, place: str, row: Row) -> str:
    """Return how the API server's verdict on an update differs from the table; empty if not."""
    name = f"update-{UPDATES.index(row)}"
    before = {**(row.before or {}), "metadata": {"name": name}}
    made = api.ask("POST", place, before, query=_STRICT)
    changed = {**json.loads(row.sent), "metadata": made["metadata"]}
    refusal = _refusal(api, "PUT", f"{place}/{name}", json.dumps(changed))
    if refusal is None:
        return "" if row.valid else "accepted"
    right = not row.valid and refusal.code == 422
    right = right and (row.path or "").removeprefix("spec.") in str(refusal)
    return "" if right else str(refusal)


def test_a_password_in_a_url_is_not_repeated(api: Api, place: str) -> None:
    """The message names the part of the URL that is wrong, and does not quote the URL."""
    url = "http://user:secret@h:1"
    run = an_external_run(server={"runtime": "External", "external": {"url": url}})
    refusal = _refusal(api, "POST", place, json.dumps(run))
    assert "a user or a password" in str(refusal)
    assert "secret" not in str(refusal)


def test_kubectl_explain_describes_every_field(api: Api, api_server: ControlPlane) -> None:
    """Each field of spec and status has a description in `kubectl explain`.

    The API server publishes what `explain` reads some time after it serves a definition.
    """

    def is_published() -> bool:
        with suppress(RuntimeError):
            document = api_server.kubectl(
                "get", "--raw", "/openapi/v3/apis/inferometer.dev/v1alpha1"
            )
            return "/{namespace}/benchmarkruns" in document
        return False

    wait_until(is_published, "The description of BenchmarkRun")
    for root in ("spec", "status"):
        page = api_server.kubectl("explain", f"benchmarkruns.{root}", "--recursive=false")
        assert page.count("<no description>") == 0, page
    page = api_server.kubectl("explain", "bmr.spec.validity.minQueries")
    assert "DESCRIPTION" in page
    assert "quer" in page.partition("DESCRIPTION")[2]


def _refusal(api: Api, method: str, path: str, body: str) -> AnswerError | None:
    try:
        api.ask(method, path, body, query={**_STRICT, "dryRun": "All"})
    except AnswerError as error:
        return error
    return None
