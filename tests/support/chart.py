"""Renders the operator's chart."""

import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from docgen.files import CHECKOUT

from support.cluster.binaries import binary

CHART = CHECKOUT / "helm" / "inferometer"
RELEASE, NAMESPACE = "inferometer", "bench"

Json = dict[str, Any]


def helm(
    *words: str | Path, stdin: str | None = None, kubeconfig: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run this helm command, whether it succeeds or not."""
    cluster: list[str | Path] = [] if kubeconfig is None else ["--kubeconfig", kubeconfig]
    return subprocess.run(
        [binary("helm"), *words, *cluster],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def rendered(
    values: Json | None = None,
    *more: str,
    release: str = RELEASE,
    namespace: str = NAMESPACE,
) -> list[Json]:
    """Return the objects that the chart makes without a cluster; an error of helm's is raised.

    `more` are further words for helm.
    """
    done = _rendered(values, release, *more, namespace=namespace)
    if done.returncode != 0:
        raise ValueError(done.stderr)
    return objects_of(done.stdout)


def objects_of(text: str) -> list[Json]:
    """Return the objects of a manifest; the parser in C takes a tenth of the time."""
    return [made for made in yaml.load_all(text, Loader=yaml.CSafeLoader) if made]


def refusal(values: Json) -> str:
    """Return what helm says of values that the chart refuses."""
    done = _rendered(values, RELEASE)
    assert done.returncode != 0, f"{values} were taken"
    return done.stderr


def check_schema(chart: Path, *, free: str = "") -> None:
    """Assert that a chart's values.yaml names each value that its schema takes, and no other.

    `free` is the path of an object whose values are for users to add.
    """
    schema = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8"))

    def compare(part: Any, known: Json, path: str) -> None:
        if "$ref" in known:
            known = schema["definitions"][known["$ref"].rpartition("/")[2]]
        if "properties" not in known:
            return
        assert known["additionalProperties"] is False, path
        if free and path == free:
            return
        assert set(part) == set(known["properties"]) - {"global"}, path
        for name, value in part.items():
            compare(value, known["properties"][name], f"{path}.{name}".lstrip("."))

    compare(values, schema, "")


def check_named(refused: str, place: str, word: str) -> None:
    """Assert that helm refuses one value, at its place, and says what is wrong with it."""
    (line,) = (each for each in refused.splitlines() if each.startswith("- at"))
    assert f"- at '{place}':" in line
    assert word in line


def _rendered(
    values: Json | None,
    release: str,
    *more: str,
    chart: Path = CHART,
    namespace: str = NAMESPACE,
) -> subprocess.CompletedProcess[str]:
    words = ("template", release, chart, "--namespace", namespace, "--values", "-")
    return helm(*words, *more, stdin=json.dumps(values or {}))


def notes(values: Json, folder: Path) -> str:
    """Return what an installation with these values says at its end.

    helm renders NOTES.txt only with a cluster, so a copy of the chart in `folder` makes it an
    object.
    """
    chart = Path(shutil.copytree(CHART, folder / "inferometer"))
    text = (chart / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    (chart / "templates" / "notes.yaml").write_text(
        f'{{{{- define "notes" -}}}}{text}{{{{- end -}}}}\n'
        'notes: {{ include "notes" . | toJson }}\n',
        encoding="utf-8",
    )
    done = _rendered(values, RELEASE, "--show-only", "templates/notes.yaml", chart=chart)
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["notes"])


def of_kind(objects: Iterable[Json], kind: str) -> list[Json]:
    """Return the objects of this kind."""
    return [each for each in objects if each["kind"] == kind]


def pod_specs(objects: Iterable[Json]) -> Iterator[Json]:
    """Yield the spec of every pod that these objects are or make."""
    for each in objects:
        if each["kind"] == "Pod":
            yield each["spec"]
        elif each["kind"] == "Deployment":
            yield each["spec"]["template"]["spec"]


def settings_text(objects: Iterable[Json]) -> str:
    """Return the settings file that the operator is started with."""
    (text,) = (
        each["data"]["settings.yaml"]
        for each in of_kind(objects, "ConfigMap")
        if "settings.yaml" in each["data"]
    )
    return str(text)
