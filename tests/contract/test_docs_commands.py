"""The sections of the pages that tests on real nodes follow exist, and give what is followed."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from docgen.files import CHECKOUT

from inferometer_cli.command_line import app
from support.documented import commands
from support.monitored import documented
from support.pod_security import violations

TESTS = Path(__file__).parents[1]
_UsageError: Any = typer.BadParameter.__mro__[1]
"""Of the library under typer, which may be its own copy."""


def sections() -> Iterator[tuple[str, str]]:
    """Yield the page and the heading of each section that tests follow; "" is the default page."""
    for path in sorted([*TESTS.glob("cluster/*.py"), *TESTS.glob("local/*.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = {
            ast.unparse(node.targets[0]): node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
        }
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name("commands"), args=[page, heading]):
                    page = constants.get(ast.unparse(page), page)
                    yield ast.literal_eval(page), ast.literal_eval(heading)
                case ast.Call(func=ast.Name("documented"), args=[heading]):
                    yield "", ast.literal_eval(heading)
                case _:
                    pass


SECTIONS = sorted(set(sections()))


@pytest.mark.parametrize(("page", "heading"), SECTIONS)
def test_a_section_that_tests_follow_exists(page: str, heading: str) -> None:
    """Renaming a heading fails here, not after an hour of `make verify`."""
    assert commands(page, heading) if page else documented(heading)


def test_the_sections_are_found() -> None:
    """The three pages are followed."""
    assert {page for page, _ in SECTIONS} == {"", "docs/how-to/energy.md", "docs/how-to/install.md"}


def _samples() -> dict[str, list[str]]:
    """Return the commands of each sample for a CI server, by its heading."""
    text = (CHECKOUT / "docs/how-to/continuous-integration.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^## ([^\n]*)\n\n```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return {
        heading: [line for each in _scripts(yaml.safe_load(block)) for line in each.splitlines()]
        for heading, block in blocks
    }


def _scripts(node: object) -> Iterator[str]:
    """Yield the scripts of a pipeline: GitHub's `run`, GitLab's `script` and `after_script`."""
    if isinstance(node, dict):
        for key, each in node.items():
            if key in {"run", "script", "after_script"}:
                yield from each if isinstance(each, list) else [each]
            else:
                yield from _scripts(each)
    elif isinstance(node, list):
        for each in node:
            yield from _scripts(each)


def test_the_samples_for_ci_servers_have_our_options() -> None:
    """Each sample is YAML, and its commands and options are those of `inferometer`."""
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group
    samples = _samples()
    assert set(samples) == {"GitHub Actions", "GitLab"}
    for heading, lines in samples.items():
        ours = [shlex.split(line) for line in lines if line.startswith("inferometer ")]
        assert {words[1] for words in ours} >= {"run", "report"}, heading
        for words in ours:
            options = {name for each in known[words[1]].params for name in each.opts}
            assert {word for word in words if word.startswith("--")} <= options, words


def _webhook_samples() -> list[Any]:
    """Return the YAML documents of the section that posts the outcome of a gate."""
    text = (CHECKOUT / "docs/how-to/suites.md").read_text(encoding="utf-8")
    section = text.partition("\n## Alerts and webhooks\n")[2]
    blocks = re.findall(r"^```yaml\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    return [document for block in blocks for document in yaml.safe_load_all(block)]


def test_the_route_of_alertmanager_is_whole() -> None:
    """Alertmanager rejects a root route without a receiver, and unknown receivers."""
    alertmanager = _webhook_samples()[0]
    route, names = alertmanager["route"], {each["name"] for each in alertmanager["receivers"]}
    assert {route["receiver"], *(each["receiver"] for each in route["routes"])} == names


def test_the_job_that_posts_an_outcome_can_be_applied_as_it_is() -> None:
    """It has an image, and rights for `kubectl wait`; of a schedule it awaits the execution."""
    account, role, binding, job = _webhook_samples()[1:]
    assert [each["kind"] for each in (account, role)] == ["ServiceAccount", "Role"]
    (rights,) = role["rules"]
    assert set(rights["verbs"]) == {"get", "list", "watch"}
    assert rights["resources"] == ["benchmarksuites"]
    name = account["metadata"]["name"]
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("Role", name)
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account["metadata"]}]
    pod = job["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == name
    (container,) = pod["containers"]
    assert container["image"]
    script = container["args"][0]
    assert script.index("{.status.execution}") < script.index("kubectl wait")


def _documented_pods() -> list[Any]:
    """Return the pods that pages have a user apply."""
    text = "\n".join(page.read_text() for page in sorted((CHECKOUT / "docs").rglob("*.md")))
    pods = re.findall(
        r"^```yaml\n(apiVersion: v1\nkind: Pod\n.*?)^```$", text, re.DOTALL | re.MULTILINE
    )
    return [yaml.safe_load(each) for each in pods]


def test_a_documented_pod_is_admitted_in_a_restricted_namespace() -> None:
    """As the namespaces of runs are, by docs/how-to/install.md."""
    pods = _documented_pods()
    assert pods
    assert {each["metadata"]["name"]: violations(each["spec"]) for each in pods} == {
        each["metadata"]["name"]: () for each in pods
    }


def _documented_lines() -> list[tuple[str, str]]:
    """Return each whole command line of `inferometer` in README and pages, with its page.

    Comments, what follows a pipe, and explanations in a second column are no part of it.
    performance.md names commands without their arguments.
    """
    found = []
    for page in [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]:
        if page.name == "performance.md":
            continue
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```(?:\w+)?\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        lines = [line.strip() for each in blocks for line in each.replace("\\\n", " ").splitlines()]
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
        # A name without more, such as `inferometer run`, names the command.
        named = re.findall(r"`(inferometer [^`]+)`", prose)
        lines += [" ".join(each.split()) for each in named if re.search(r" --| \S+[./]\S", each)]
        found += [
            (page.name, re.split(r"\s{2,}| (?:[|>;&#]|2>|-- )", line)[0])
            for line in lines
            if line.startswith("inferometer ") and "..." not in line and "[" not in line
        ]
    return found


def _problem(words: list[str]) -> str:
    """Return what is wrong with a command line, but for its values; empty if nothing is.

    No callback of an option is called.
    """
    command: Any = typer.main.get_command(app)
    while known := getattr(command, "commands", None):
        if not words or words[0].startswith("--"):
            break
        if words[0] not in known:
            return f"There is no command {words[0]}."
        command, words = known[words[0]], words[1:]
    try:
        values, left, _ = command.make_parser(command.context_class(command)).parse_args(words)
    except _UsageError as error:
        return str(error.format_message())
    lacking = [each.name for each in command.params if each.required and not values.get(each.name)]
    if left and not known:
        return f"Too many arguments: {left}."
    return f"It lacks {lacking}." if lacking and not {"help", "-h"} & values.keys() else ""


def test_every_documented_command_line_is_one() -> None:
    """Its command and options exist, and it has its arguments."""
    lines = _documented_lines()
    assert len(lines) > 90
    problems = {each: _problem(shlex.split(each[1])[1:]) for each in lines}
    assert {each: problem for each, problem in problems.items() if problem} == {}
