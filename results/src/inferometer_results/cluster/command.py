"""The command line of the service in a cluster."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from kubernetes.aio.config import ConfigException

from inferometer_results.cluster.server import ResultRetention, ServiceConfig, serve
from inferometer_results.explore.prices import PriceListError, read_prices
from inferometer_results.service.access.cluster import ReviewError
from inferometer_results.service.access.front_proxy import FrontProxyError
from inferometer_results.service.app import exempt_from_collection
from inferometer_results.store.database import StoreError

_REFUSED = 2


def main(words: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; return the exit code."""
    options = arguments().parse_args(words)
    try:
        config = _config(options)
        exempt_from_collection()
        asyncio.run(serve(config))
    except (
        ConfigException,
        FrontProxyError,
        OSError,
        PriceListError,
        ReviewError,
        StoreError,
    ) as error:
        sys.stderr.write(f"inferometer-results: {error}\n")
        return _REFUSED
    return 0


def _config(options: argparse.Namespace) -> ServiceConfig:
    prices = None
    if options.prices is not None:
        prices = read_prices(options.prices.read_text(encoding="utf-8"), str(options.prices))
    return ServiceConfig(
        database=options.database_file.read_text().strip()
        if options.database_file is not None
        else options.database,
        certificates=options.certificates,
        operators=frozenset(map(_account, options.operator)),
        host=options.host,
        port=options.port,
        probe_port=options.probe_port,
        kubeconfig=options.kubeconfig,
        prices=prices,
        retention=ResultRetention(options.keep_days or None, options.keep_megabytes or None),
    )


def _account(named: str) -> str:
    """Return the user name of a service account: NAMESPACE/NAME."""
    namespace, _, name = named.partition("/")
    return f"system:serviceaccount:{namespace}:{name}"


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="inferometer-results",
        description="Keeps and serves the results of a Kubernetes cluster, as an aggregated API.",
    )
    add = parser.add_argument
    add(
        "--database",
        default="/data/results.db",
        metavar="FILE|URL",
        help="SQLite file, or postgresql://USER@HOST/NAME (default %(default)s)",
    )
    add(
        "--database-file",
        type=Path,
        metavar="FILE",
        help="file with the URL of the database, if it holds a password",
    )
    add(
        "--certificates",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder with tls.crt and tls.key; others are taken up while the service runs",
    )
    add(
        "--operator",
        action="append",
        default=[],
        metavar="NAMESPACE/ACCOUNT",
        help="service account of an operator, which may deliver results of the namespaces it "
        "serves; repeatable",
    )
    add("--host", default="", metavar="ADDRESS", help="default: every address")
    add("--port", type=int, default=8443, metavar="PORT", help="for TLS (default %(default)s)")
    add(
        "--probe-port",
        type=int,
        default=8080,
        metavar="PORT",
        help="for /healthz, /readyz and /metrics without TLS (default %(default)s)",
    )
    add("--prices", type=Path, metavar="FILE", help="YAML price list of nodes")
    add(
        "--keep-days",
        type=int,
        default=0,
        metavar="N",
        help="delete results that started longer ago, without tag or judged change; 0: keep them",
    )
    add(
        "--keep-megabytes",
        type=int,
        default=0,
        metavar="N",
        help="delete the oldest ones until the documents take no more; 0: any amount",
    )
    add("--kubeconfig", type=Path, metavar="FILE", help="default: the pod's service account")
    return parser
