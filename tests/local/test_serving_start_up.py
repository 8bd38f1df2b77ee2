"""What keeps the start of a server short: few imports, and no collections until it is ready."""

import json
import subprocess
import sys
from typing import Any

import pytest

from support import onnx_models
from support.waiting import killed_at_deadline

_PROGRAM = """
import gc, sys
before = set(sys.modules)
from inferometer_serving import __main__ as program, main

show = main._print_event


def show_more(document):
    imported = sorted(each for each, module in sys.modules.items() if hasattr(module, "__file__"))
    more = {"collects": gc.isenabled(), "frozen": gc.get_freeze_count()}
    show({**document, **more, "imported": [each for each in imported if each not in before]})


main._print_event = show_more
sys.exit(program.main(sys.argv[1:]))
"""
_KEPT = {
    "engine": {"onnxruntime", "numpy", "ml_dtypes", "onnx", "packaging", "typing_extensions"},
    "protocols": {"grpc", "google", "tritonclient", "rapidjson", "httptools", "orjson", "uvloop"},
    "reports": {"structlog", "greenlet", "prometheus_client"},
    "own": {"inferometer_api", "inferometer_models", "inferometer_serving"},
}
"""Packages beyond the standard library that are imported until the server is ready, by purpose.

structlog imports greenlet if it is installed.
"""
_LATER = ("inferometer_serving.node", "inferometer_serving.model_forms", "inferometer_api.spec")
"""Our own packages that no start needs."""
_SLOW = {"multiprocessing", "sqlite3", "tkinter", "unittest", "xml", "xmlrpc", "pydoc"}
"""Slow parts of the standard library."""


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Start a server; return what holds when it listens and when it is ready."""
    model = tmp_path_factory.mktemp("model") / "model.onnx"
    model.write_bytes(onnx_models.identity().SerializeToString())
    words = [sys.executable, "-c", _PROGRAM, "--model", str(model)]
    ports = ["--http-port", "0", "--grpc-port", "0"]
    with subprocess.Popen([*words, *ports], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with killed_at_deadline(process, "the start of the server"):
            lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.terminate()
    return {each["event"]: each for each in lines}


def test_few_packages_are_imported_before_the_server_is_ready(
    events: dict[str, dict[str, Any]],
) -> None:
    """Each package costs milliseconds of every start: a new one needs a reason."""
    imported = events["ready"]["imported"]
    packages = {each.partition(".")[0] for each in imported} - set(sys.stdlib_module_names)
    third = {each for each in packages if not each.startswith("_")}
    assert third <= set().union(*_KEPT.values())
    assert _KEPT["own"] <= third
    assert not [each for each in imported if each.startswith(_LATER)]
    assert not _SLOW & {each.partition(".")[0] for each in imported}


def test_objects_are_not_collected_before_the_server_is_ready(
    events: dict[str, dict[str, Any]],
) -> None:
    """What is imported stays, so that collections only cost time; from then on they run."""
    assert not events["listening"]["collects"]
    assert events["ready"]["collects"]
    assert events["ready"]["frozen"] > 0
