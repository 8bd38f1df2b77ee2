"""The service answers only who may ask, and lets no page of another site read results."""

import base64
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from inferometer_results.service.access.rules import AccessRules, refusal
from inferometer_results.service.app import create_app
from inferometer_results.store.store import Store

TOKEN = "0123456789abcdef0123"  # noqa: S105 - for tests only
LOCAL = AccessRules()
SHARED = AccessRules(frozenset({"bench.example"}), TOKEN)


def _status(
    headers: dict[str, str], rules: AccessRules = LOCAL, method: str = "GET", url_bytes: int = 10
) -> int:
    found = refusal(method, url_bytes, {"host": "127.0.0.1:8090"} | headers, rules)
    return 200 if found is None else found.status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8090", 200),
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:8090", 200),
        ("192.0.2.7", 200),
        ("attacker.example", 421),
        ("localhost.attacker.example:8090", 421),
        ("127.0.0.1.attacker.example", 421),
        ("bench.example", 421),
        ("", 421),
    ],
)
def test_a_name_that_is_not_of_this_host_is_refused(host: str, status: int) -> None:
    """A site whose name leads here (DNS rebinding) reads nothing; addresses are no names."""
    assert _status({"host": host}) == status


def test_further_names_of_the_host_are_allowed_by_name() -> None:
    """The token is needed all the same."""
    assert _status({"host": "bench.example:80"}, SHARED) == 401
    bearer = {"host": "BENCH.example", "authorization": f"Bearer {TOKEN}"}
    assert _status(bearer, SHARED) == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8090", 200),
        ("https://127.0.0.1:8090", 200),
        ("http://127.0.0.1:9999", 403),
        ("https://attacker.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_a_page_of_another_origin_reads_nothing(origin: str, status: int) -> None:
    """Another port of the same host is another origin."""
    assert _status({"origin": origin}) == status


def _basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        (_basic(f"anybody:{TOKEN}"), 200),
        (_basic(TOKEN), 401),
        (f"Bearer {TOKEN}0", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer", 401),
        ("Bearer \N{LATIN SMALL LETTER E WITH ACUTE}", 401),
        ("Basic \N{LATIN SMALL LETTER E WITH ACUTE}", 401),
        ("Basic /w==", 401),
        (f"Digest {TOKEN}", 401),
        ("", 401),
    ],
)
def test_the_token_is_required_once_it_is_set(header: str, status: int) -> None:
    """As a Bearer token by programs, as the password of any user by browsers."""
    assert _status({"authorization": header}, SHARED) == status
    assert _status({}, SHARED) == 401


def test_only_small_requests_that_read_are_answered() -> None:
    """Nothing is changed here, and no body fills the memory."""
    assert _status({}, method="HEAD") == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get"):
        assert _status({}, method=method) == 405
    assert _status({}, url_bytes=8193) == 414
    assert _status({"content-length": "1"}) == 413
    assert _status({"transfer-encoding": "chunked"}) == 413


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    """Return a client of an empty store that requires a token."""
    app = create_app(Store(str(tmp_path / "results.db")), SHARED, "1.2.3", lambda: 0.0)
    return TestClient(app, base_url="http://bench.example")


@pytest.mark.parametrize(
    "path", ["/", "/api/v1/results", "/api/v1/openapi.json", "/metrics", "/healthz", "/nowhere"]
)
def test_no_address_is_answered_without_the_token(client: TestClient, path: str) -> None:
    """Browsers prompt for it; the answer is the same for addresses that do not exist."""
    answer = client.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic")
    assert answer.text == "Send the token: Authorization: Bearer TOKEN.\n"


@pytest.mark.parametrize("path", ["/", "/api/v1/results", "/nowhere", "/api/v1/results/zzzz"])
@pytest.mark.parametrize("token", [TOKEN, "wrong"])
def test_every_answer_is_secured_by_headers(client: TestClient, path: str, token: str) -> None:
    """Refusals and errors too: no inline script, no frame, no guess of the content's type."""
    answer = client.get(path, headers={"authorization": f"Bearer {token}"})
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "private, no-cache"
    assert "access-control-allow-origin" not in answer.headers
