"""The engines by name. Each loads a model into a session, which predicts and is unloaded."""

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import cast

from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile
from inferometer_serving.model.session import EngineSettings, Interrupt, Session
from inferometer_serving.options import EngineName

Load = Callable[[GraphFile, EngineSettings, Interrupt], Session]

_MODULES = {
    EngineName.ONNX_RUNTIME: ("onnx_runtime", "cpu"),
    EngineName.OPENVINO: ("open_vino", "openvino"),
}
"""The module of each engine, and the extra that installs its library."""


def open_session(
    engine: EngineName, graph: GraphFile, settings: EngineSettings, interrupt: Interrupt
) -> Session:
    """Load a model by an engine. Raises ModelRefusedError, also if the engine is not installed."""
    return import_engine(engine)(graph, settings, interrupt)


def import_engine(engine: EngineName) -> Load:
    """Return how an engine loads a model. Raises ModelRefusedError if it is not installed."""
    module, extra = _MODULES[engine]
    silence_openvino()
    try:
        # Only the engine that is used has to be installed.
        found = import_module(f"inferometer_serving.model.{module}")
    except ImportError as error:
        raise ModelRefusedError(
            f"The engine {engine} was requested, but it cannot be imported: {error}. Install "
            f"inferometer[{extra}]."
        ) from error
    return cast("Load", found.load)


def silence_openvino() -> None:
    """Keep OpenVINO from reporting its import to its makers, for which it needs this package."""
    sys.modules.setdefault("openvino_telemetry", cast("ModuleType", None))
