"""Fills an MLflow tracking database with runs; executed by the Python of MLflow's environment.

    python mlflow_runs.py sqlite:///FILE COUNT < RUNS

Each line of standard input is one run: its name, parameters and metrics as JSON.
"""

import json
import sys
import time


def main() -> None:
    """Create an experiment with one run for each line."""
    # mypy and ruff know nothing of that environment.
    from mlflow.entities import Metric, Param  # type: ignore[import-not-found]  # noqa: PLC0415
    from mlflow.store.tracking.sqlalchemy_store import (  # type: ignore[import-not-found]  # noqa: PLC0415
        SqlAlchemyStore,
    )

    address, folder = sys.argv[1:]
    store = SqlAlchemyStore(address, folder)
    experiment = store.create_experiment("results")
    for line in sys.stdin:
        given = json.loads(line)
        now = int(time.time() * 1000)
        run = store.create_run(experiment, "bench", now, [], given["name"])
        metrics = [Metric(name, value, now, 0) for name, value in given["metrics"].items()]
        params = [Param(name, value) for name, value in given["params"].items()]
        store.log_batch(run.info.run_id, metrics, params, [])
    print(json.dumps({"experiment": experiment}))


if __name__ == "__main__":
    main()
