"""Two replicas of the results service share one PostgreSQL database."""

import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from inferometer_api.results.service_paths import EXPLORER, ingest_path
from support.aggregation_certificates import FRONT_PROXY
from support.api_client import Api
from support.cluster.control_plane import ControlPlane
from support.cluster.namespaces import fresh_namespace
from support.postgresql import postgresql
from support.results_service import ResultsServiceProcess
from support.stored_results import a_document

_ADMIN = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}


def test_what_one_replica_takes_the_other_shows_and_takes_over(
    api_server: ControlPlane, api: Api, tmp_path: Path
) -> None:
    """Pushed through the API server to one, read from the other; then the first one dies."""
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    with (
        tempfile.TemporaryDirectory(prefix="pg-") as short,
        postgresql(Path(short)) as address,
        fresh_namespace(api_server, "shared") as namespace,
    ):
        push = f"{EXPLORER}{ingest_path(namespace)}"
        first = ResultsServiceProcess(api_server, api, folders[0], database=address)
        ids = [api.ask("POST", push, a_document(0).decode())["id"]]
        # It registers itself as the one that the API server calls.
        second = ResultsServiceProcess(api_server, api, folders[1], database=address)
        try:
            assert api.ask("GET", f"{EXPLORER}/api/v1/results/{ids[0]}")["id"] == ids[0]
            with ThreadPoolExecutor(4) as pool:
                documents = (a_document(number).decode() for number in range(1, 21))
                answers = list(pool.map(lambda each: api.ask("POST", push, each), documents))
            ids += [each["id"] for each in answers]
            status, text = first.ask(
                "GET",
                f"{EXPLORER}/api/v1/results?limit=500",
                _ADMIN,
                client=FRONT_PROXY,
                folder=tmp_path,
            )
            assert status == 200
            assert {each["id"] for each in json.loads(text)["items"]} == set(ids)
            api.ask("POST", f"{EXPLORER}/api/v1/results/{ids[0]}/journal", _TAG)
            first.kill()
            found = api.ask("GET", f"{EXPLORER}/api/v1/results?where=tag%3Dbaseline")
            assert [each["id"] for each in found["items"]] == [ids[0]]
        finally:
            first.kill()
            second.close()


_TAG = {"action": "tag", "text": "baseline"}
