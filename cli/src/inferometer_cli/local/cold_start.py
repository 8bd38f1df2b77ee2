"""Cold starts of a local server: the machine is put into the state, and the start is observed."""

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from inferometer_api.plan.load_plan import ObservedPhase, StartEvidence
from inferometer_api.results.cold_start import MODEL_FETCHED
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.local.server import LaunchedModel, TargetServer, start_server
from inferometer_models.page_cache import evict, read_whole, resident_bytes


class ColdStarter:
    """Starts the server of a run with cold starts, each time from the state that it sets."""

    def __init__(
        self,
        run: BenchmarkRun,
        model: LaunchedModel,
        fetch: Callable[[AsyncExitStack], Awaitable[LaunchedModel]],
    ) -> None:
        """`fetch` fetches the model anew, into a folder that goes with the stack."""
        self._run = run
        self._model = model
        self._fetch = fetch
        self._state = next(
            each.cold_start.state for each in run.spec.scenarios if each.cold_start is not None
        )
        files = _files(model.path, *model.others.values())
        self._size_bytes = sum(each.stat().st_size for each in files)
        fetches = self._state == "ImagePresent"
        self._copies = [each for each in files if each.is_relative_to(model.folder)]
        self._files = files
        """What a start reads: those that the fetcher copies, else those that the server opens."""
        if fetches and model.source_path:
            self._files = _files(model.source_path, *model.others.values())

    async def start(self, children: AsyncExitStack) -> TargetServer:
        """Start a server that ends with the stack. Raises what `fetch` and `start_server` raise."""
        evidence, model = self._prepare(), self._model
        if self._state == "ImagePresent":
            model = await self._fetch(children)
            evidence.phases.extend(self._fetch_phases(evidence.created_microseconds, model))
        server = await start_server(self._run, model, children)
        evidence = evidence.model_copy(
            update={
                "launched_microseconds": server.launched_microseconds,
                "ready_microseconds": server.ready_microseconds,
            }
        )
        return replace(server, start=evidence)

    def _fetch_phases(self, created: int, model: LaunchedModel) -> list[ObservedPhase]:
        """Return the start of the fetcher's process, and the fetch, which just ended."""
        started = model.fetch_started_microseconds or created
        own = "the fetcher's process"
        begin = ObservedPhase(
            name="fetcherStarted",
            start_microseconds=created,
            end_microseconds=started,
            evidence=own,
        )
        fetch = ObservedPhase(
            name=MODEL_FETCHED,
            start_microseconds=started,
            end_microseconds=time.time_ns() // 1000,
            evidence=own,
            bytes=self._size_bytes,
        )
        return [begin, fetch]

    def _prepare(self) -> StartEvidence:
        """Put the model's files into the state; return what is known before the start."""
        if self._state == "ImagePresent":
            for each in self._copies:
                each.unlink(missing_ok=True)  # the fetcher makes another copy
        files = [each for each in self._files if each.exists()]
        if self._state == "ModelInMemory":
            read_whole(files)
        else:
            evict(files)
        resident, unknown = None, ""
        try:
            resident = sum(map(resident_bytes, files))
        except OSError as error:
            unknown = error.strerror or str(error)
        return StartEvidence(
            model_bytes=sum(each.stat().st_size for each in files),
            resident_bytes=resident,
            residency_unknown=unknown,
            created_microseconds=time.time_ns() // 1000,
        )


def _files(*models: str) -> list[Path]:
    """Return the files of models, each once."""
    # Slow to import, and only needed for cold starts.
    from inferometer_models.graph_file import external_files

    paths = map(Path, models)
    return list(dict.fromkeys(each for path in paths for each in (path, *external_files(path))))
