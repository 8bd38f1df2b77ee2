"""Options that select a cluster and namespace, named as in kubectl."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

ResultArgument = Annotated[
    str,
    typer.Argument(
        metavar="RESULT",
        help="A result.json, or the name of a run in a cluster.",
        show_default=False,
    ),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAMESPACE",
        help="Namespace. [default: the namespace of the context]",
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context", metavar="CONTEXT", help="Context of the kubeconfig. [default: current context]"
    ),
]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="Kubeconfig file. [default: $KUBECONFIG, else ~/.kube/config]",
    ),
]
RunName = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of a BenchmarkRun.", show_default=False)
]


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options that select a cluster; None means the default of kubectl."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: Path | None = None

    @property
    def is_given(self) -> bool:
        """Whether any option was given, which means a run in a cluster."""
        return any(part is not None for part in (self.namespace, self.context, self.kubeconfig))
