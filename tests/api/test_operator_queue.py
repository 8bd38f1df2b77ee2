"""Runs are queued, suspended, cancelled and deleted."""

from support.stage import SHORT, Stage

_TWO = [{"name": "first", "singleStream": {}}, {"name": "second", "singleStream": {}}]


def test_runs_wait_for_their_turn(stage: Stage) -> None:
    """Of three runs one runs; the others show their position, and follow by age."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator()
    for name in ("run-1", "run-2", "run-3"):
        stage.apply(name)
        stage.wait("Accepted", name=name)
    first = stage.load("run-1")
    stage.wait("Accepted", "Queued", name="run-2")
    stage.wait("Accepted", "Queued", name="run-3")
    assert stage.status("run-3")["phase"] == "Queued"
    assert "Position 2 " in stage.condition("Accepted", "run-3")["message"]
    assert {"Job/run-1-server", "Job/run-1-load"} == {
        each for each in stage.children() if each.startswith("Job/")
    }
    # One that leaves the queue leaves no gap.
    stage.api.delete("BenchmarkRun", stage.namespace, "run-2")
    first.end()
    stage.finished("run-1")
    stage.load("run-3").end()
    stage.finished("run-3")
    ends, begins = stage.status("run-1")["completionTime"], stage.status("run-3")["startTime"]
    assert begins >= ends


def test_as_many_run_at_once_as_the_admin_allows(stage: Stage) -> None:
    """With maxConcurrentRuns: 2 two of three run side by side."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator(maxConcurrentRuns=2)
    for name in ("run-1", "run-2", "run-3"):
        stage.apply(name)
    first, second = stage.load("run-1"), stage.load("run-2")
    stage.wait("Accepted", "Queued", name="run-3")
    second.end()
    stage.finished("run-2")
    third = stage.load("run-3")
    assert not stage.condition("Finished", "run-1")
    first.end()
    third.end()
    for name in ("run-1", "run-3"):
        stage.finished(name)


def test_a_suspended_run_waits_outside_of_the_queue(stage: Stage) -> None:
    """It begins once it is resumed; no run waits behind it."""
    stage.start_operator()
    stage.apply(suspend=True)
    stage.wait("Accepted", "Suspended")
    assert stage.status()["phase"] == "Suspended"
    stage.apply("other")
    stage.finished("other")
    assert not stage.condition("Finished")
    stage.change(suspend=False)
    stage.finished()
    assert stage.condition("Complete")["status"] == "True"


def test_a_run_that_is_suspended_while_it_measures_is_over(stage: Stage) -> None:
    """It never resumes, and what was measured is kept."""
    stage.play("loadgen", stage.loads.measure_until_stopped)
    stage.start_operator()
    stage.apply(scenarios=_TWO)
    stage.wait("Measuring")
    stage.change(suspend=True)
    stage.wait("Failed", "Suspended")
    status = stage.finished()
    assert [each["name"] for each in status["scenarios"]] == ["first"]
    assert status["result"]["configMaps"]
    stage.change(suspend=False)
    # Another run has its turn after it, and this one has none.
    stage.play("loadgen", stage.loads.measure)
    stage.apply("other")
    stage.finished("other")
    after = stage.status()
    assert {**after, "observedGeneration": 0} == {**status, "observedGeneration": 0}
    assert len(stage.kubelet.all(stage.namespace, "server")) == 2


def test_a_cancelled_run_keeps_what_was_measured(stage: Stage) -> None:
    """The load generator is stopped with the plan's token, and its result is kept."""
    stage.play("loadgen", stage.loads.measure_until_stopped)
    stage.start_operator()
    stage.apply(scenarios=_TWO)
    stage.wait("Measuring")
    stage.change(cancel=True)
    stage.wait("Failed", "Cancelled")
    status = stage.finished()
    assert [each["name"] for each in status["scenarios"]] == ["first"]
    assert status["result"]["configMaps"]
    assert stage.load().refused_stops == 0


def test_a_queued_run_that_is_cancelled_never_begins(stage: Stage) -> None:
    """It ends at once, without a child."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator()
    stage.apply("other")
    stage.load("other")
    stage.apply()
    stage.wait("Accepted", "Queued")
    stage.change(cancel=True)
    stage.wait("Failed", "Cancelled")
    status = stage.finished()
    assert "startTime" not in status
    stage.load("other").end()


def test_a_deleted_run_leaves_nothing_and_frees_its_slot(stage: Stage) -> None:
    """Its children go with it, and the next begins once its pods are gone."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator()
    stage.apply()
    stage.load().show("Measuring", "latency")
    stage.wait("Measuring")
    stage.apply("next", validity=SHORT)
    stage.wait("Accepted", "Queued", name="next")
    stage.api.delete("BenchmarkRun", stage.namespace, "a-run")
    stage.play("loadgen", stage.loads.measure)
    stage.finished("next")
    stage.wait_for(
        lambda: not any("a-run" in each for each in stage.children()),
        lambda: f"the end of {stage.children()}",
    )


def test_a_run_held_by_a_finalizer_lets_the_next_begin(stage: Stage) -> None:
    """Deleted while it measures, it sends no more load, though it is still there."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator()
    stage.apply()
    stage.load().show("Measuring", "latency")
    stage.wait("Measuring")
    finalizers = {"metadata": {"finalizers": ["example.org/hold"]}}
    stage.api.merge("BenchmarkRun", stage.namespace, "a-run", finalizers)
    stage.apply("next")
    stage.wait("Accepted", "Queued", name="next")
    stage.play("loadgen", stage.loads.measure)
    stage.api.delete("BenchmarkRun", stage.namespace, "a-run")
    stage.finished("next")
    assert stage.run()["metadata"]["deletionTimestamp"]
    assert not any("a-run" in each for each in stage.children())
    none: dict[str, object] = {"metadata": {"finalizers": []}}
    stage.api.merge("BenchmarkRun", stage.namespace, "a-run", none)
