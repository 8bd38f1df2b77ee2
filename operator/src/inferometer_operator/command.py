"""The command line of the operator, its log, and its exit codes."""

import argparse
import asyncio
import gc
import logging
import os
import socket
import sys
from collections.abc import Mapping, Sequence
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

REFUSED, FAILED = 2, 1
_log = structlog.get_logger()


def main(words: Sequence[str] | None = None) -> int:
    """Run the operator until SIGTERM; return the exit code."""
    options = _arguments().parse_args(words)
    try:
        settings = _settings(options.settings)
    except ValueError as error:
        sys.stderr.write(f"inferometer-operator: {error}\n")
        return REFUSED
    _configure_logging()
    instance, identity = _identity(os.environ)
    lease = None
    if not options.no_lease:
        namespace = options.lease_namespace or settings.namespace
        if namespace is None:
            sys.stderr.write(
                "inferometer-operator: The namespace of the Lease is not set. Set "
                "--lease-namespace NAMESPACE, or --no-lease for a single operator.\n"
            )
            return REFUSED
        lease = LeaseConfig(options.lease, namespace, identity, options.lease_seconds, instance)
    config = OperatorConfig(
        settings=settings,
        kubeconfig=options.kubeconfig,
        lease=lease,
        identity=identity,
        health_port=options.health_port,
        loadgen_port=options.loadgen_port,
    )
    # Collections need not pass over what the imports made, which stays: they took a quarter of the
    # CPU time of a start with 3,000 runs.
    gc.collect()
    gc.freeze()
    try:
        asyncio.run(run_operator(config))
    except ConfigurationError as error:
        sys.stderr.write(f"inferometer-operator: {error}\n")
        return REFUSED
    except Exception:  # noqa: BLE001 - the last line of the log reports every error
        _log.exception("operator_failed")
        return FAILED
    return 0


def _identity(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return what all starts of this container share, empty if that is unknown, and this start's.

    A pod's name may be given again, and its first holder may still run on a lost node. Its UID
    never is, and the kubelet never runs a container of a pod twice at once.
    """
    name, uid = environment.get("POD_NAME") or socket.gethostname(), environment.get("POD_UID")
    instance = f"{name}_{uid}" if uid else ""
    return instance, f"{instance or name}_{uuid4()}"


def _configure_logging() -> None:
    """Log to standard error as JSON, one object a line, also for the libraries."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("kopf").setLevel(logging.WARNING)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="inferometer-operator",
        description="Runs BenchmarkRuns on a Kubernetes cluster.",
    )
    parser.add_argument(
        "--settings",
        type=Path,
        required=True,
        metavar="FILE",
        help="the settings of the cluster's admin",
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="default: the pod's service account"
    )
    parser.add_argument(
        "--lease", default=LEASE, metavar="NAME", help="name of the Lease (default %(default)s)"
    )
    parser.add_argument(
        "--lease-namespace", metavar="NAMESPACE", help="default: the namespace of the settings"
    )
    parser.add_argument(
        "--lease-seconds",
        type=float,
        default=15.0,
        metavar="SECONDS",
        help="how long after its last renewal the leader is replaced (default 15)",
    )
    parser.add_argument(
        "--no-lease", action="store_true", help="lead at once, for a single operator"
    )
    parser.add_argument(
        "--health-port",
        type=int,
        default=8080,
        metavar="PORT",
        help="for /healthz, /readyz and /metrics; 0: any free port, shown in the log",
    )
    parser.add_argument(
        "--loadgen-port",
        type=int,
        default=LOADGEN_PORT,
        metavar="PORT",
        help=f"port of the load generators, for tests without real pods (default {LOADGEN_PORT})",
    )
    return parser


def _settings(file: Path) -> Settings:
    """Return the settings in a file; raise ValueError if it cannot be read or is not valid."""
    try:
        return Settings.model_validate(yaml.safe_load(file.read_text()))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"Cannot read the settings file {file}: {error}") from error
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}"
            for each in error.errors(include_url=False)
        )
        raise ValueError(f"The settings file {file} is not valid: {problems}.") from error
