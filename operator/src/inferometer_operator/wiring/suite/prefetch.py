"""The prefetch of a suite's models: Jobs before the first run, one for each model and placement."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

import structlog

from inferometer_api.plan.cluster_objects import ALLOW_USE_LABEL
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.suite.plan_suite import SuitePlan
from inferometer_operator.cluster.child_store import is_child_of
from inferometer_operator.manifests.owner import Manifest, Owner
from inferometer_operator.manifests.prefetch_job import prefetch_jobs
from inferometer_operator.reconcile.child_faults import has_ended
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.suite.canary import NodeCanary

LOOK_AGAIN_SECONDS = 1.0
_TAKEN = 409
_log = structlog.get_logger()


@dataclass(slots=True)
class ModelPrefetch:
    """Brings the models of one suite to the nodes before its first run."""

    _jobs: dict[str, Manifest] | None = None
    _over: set[str] = field(default_factory=set)
    """Jobs that have ended or cannot be created: no run waits for them again."""

    async def advance(self, dependencies: Dependencies, raw: Json, plan: SuitePlan) -> str:
        """Create the Jobs that are missing; return what is waited for, empty once all have ended.

        A Job that fails delays no run for longer than its deadline: the run's own pod mounts the
        model, and reports why it cannot.
        """
        metadata = raw["metadata"]
        owner = Owner(metadata["name"], metadata["namespace"], metadata["uid"], "BenchmarkSuite")
        if self._jobs is None:
            self._jobs = await _wanted_jobs(dependencies, owner, plan)
        jobs = self._jobs
        children = dependencies.reader.children.of_run("Job", owner.namespace, owner.uid)
        held = {each["metadata"]["name"]: each for each in children if is_child_of(each, owner.uid)}
        self._over |= {name for name, job in held.items() if has_ended(job)}
        for name in jobs.keys() - self._over - held.keys():
            refusal = await dependencies.writer.create(jobs[name])
            if refusal is None:
                _log.info("prefetch_created", suite=owner.name, job=name)
            elif refusal.code != _TAKEN:
                _log.warning("prefetch_refused", suite=owner.name, error=refusal.message)
                self._over.add(name)
        going_on = len(jobs.keys() - self._over)
        if not going_on:
            return ""
        return (
            f"Models are fetched to the caches of their nodes: {len(jobs) - going_on} of "
            f"{len(jobs)} are there."
        )


@dataclass(slots=True)
class SuitePreparation:
    """What precedes the first run of one suite: the canary of its nodes, then its models."""

    canary: NodeCanary = field(default_factory=NodeCanary)
    _prefetch: ModelPrefetch = field(default_factory=ModelPrefetch)

    async def advance(self, dependencies: Dependencies, raw: Json, plan: SuitePlan) -> str:
        """Do what is due; return what is waited for, empty at the end."""
        waits = await self.canary.advance(dependencies, raw, plan)
        return waits or await self._prefetch.advance(dependencies, raw, plan)


async def _wanted_jobs(
    dependencies: Dependencies, owner: Owner, plan: SuitePlan
) -> dict[str, Manifest]:
    settings = dependencies.settings
    if not settings.model_cache:
        return {}
    # A thousand cells take a second.
    runs = await asyncio.to_thread(lambda: [each.run for each in plan.runs])
    cached = [each for each in runs if each.spec.model.cache is not None]
    refused = await _refused_secrets(dependencies, owner.namespace, cached)
    wanted = [each for each in cached if each.spec.model.credentials_secret not in refused]
    return prefetch_jobs(wanted, owner, settings)


async def _refused_secrets(
    dependencies: Dependencies, namespace: str, runs: Collection[BenchmarkRun]
) -> set[str]:
    """Return the Secrets of models that runs may not use."""
    secrets = {each.spec.model.credentials_secret for each in runs}
    names = {each for each in secrets if each is not None}
    if not dependencies.settings.allow_secrets:
        return names
    found = set()
    for name in names:
        secret = await dependencies.reader.get_metadata("Secret", namespace, name)
        if ((secret or {}).get("labels") or {}).get(ALLOW_USE_LABEL) != "s3":
            found.add(name)
    return found
