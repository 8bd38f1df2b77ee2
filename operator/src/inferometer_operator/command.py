"""With what is the operator started, and how does it end?"""

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import structlog
import yaml
from pydantic import ValidationError

from inferometer_api.plan.cluster_objects import LEASE, LOADGEN_PORT
from inferometer_operator.cluster.connection import ConfigurationError
from inferometer_operator.cluster.lease import LeaseConfig
from inferometer_operator.main_loop import OperatorConfig, run_operator
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.logs import configure_logging

REFUSED, FAILED = 2, 1
_log = structlog.get_logger()


def main(words: Sequence[str] | None = None) -> int:
    """Run the operator until it is told to end; return its exit code."""
    told = _arguments().parse_args(words)
    try:
        settings = _settings(told.settings)
    except ValueError as error:
        sys.stderr.write(f"inferometer-operator: {error}\n")
        return REFUSED
    configure_logging()
    identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid4()}"
    terms = None
    if not told.no_lease:
        namespace = told.lease_namespace or settings.namespace
        if namespace is None:
            sys.stderr.write(
                "inferometer-operator: which namespace holds the Lease? Give --lease-namespace "
                "NAMESPACE, or --no-lease for a single operator.\n"
            )
            return REFUSED
        terms = LeaseConfig(told.lease, namespace, identity, told.lease_seconds)
    started = OperatorConfig(
        settings=settings,
        kubeconfig=told.kubeconfig,
        terms=terms,
        identity=identity,
        health_port=told.health_port,
        loadgen_port=told.loadgen_port,
    )
    try:
        asyncio.run(run_operator(started))
    except ConfigurationError as error:
        sys.stderr.write(f"inferometer-operator: {error}\n")
        return REFUSED
    except Exception:  # noqa: BLE001 - whatever it is, it is told as the last line of the log
        _log.exception("ended_by_a_fault")
        return FAILED
    return 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="inferometer-operator",
        description="Carries out BenchmarkRuns on a Kubernetes cluster.",
    )
    parser.add_argument(
        "--settings", type=Path, required=True, metavar="FILE", help="what the admin has settled"
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="default: the pod's service account"
    )
    parser.add_argument("--lease", default=LEASE, metavar="NAME")
    parser.add_argument(
        "--lease-namespace", metavar="NAMESPACE", help="default: the namespace that is served"
    )
    parser.add_argument(
        "--lease-seconds",
        type=float,
        default=15.0,
        metavar="SECONDS",
        help="how long after its last sign the leader is replaced (default 15)",
    )
    parser.add_argument(
        "--no-lease", action="store_true", help="lead at once: there is no other operator"
    )
    parser.add_argument(
        "--health-port",
        type=int,
        default=8080,
        metavar="PORT",
        help="for /healthz, /readyz and /metrics; 0: any free one, told in the log",
    )
    parser.add_argument(
        "--loadgen-port",
        type=int,
        default=LOADGEN_PORT,
        metavar="PORT",
        help=f"where load generators answer, for trials without real pods (default {LOADGEN_PORT})",
    )
    return parser


def _settings(file: Path) -> Settings:
    """Return what a file settles; raises ValueError with a sentence."""
    try:
        return Settings.model_validate(yaml.safe_load(file.read_text()))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"The settings {file} cannot be read: {error}") from error
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}"
            for each in error.errors(include_url=False)
        )
        raise ValueError(f"The settings {file} are not valid: {problems}.") from error
