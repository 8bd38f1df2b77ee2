"""The chart grants the operator exactly the rights that `inferometer_api.plan.rights` lists."""

import re

import pytest
from docgen.files import CHECKOUT

from inferometer_api.plan.rights import (
    KSERVE,
    KUEUE,
    KUEUE_CLUSTER,
    LEASE,
    NODES,
    OTHER_OPERATORS,
    RUNS,
    SECRETS,
    Right,
)
from support.chart import NAMESPACE, Json, of_kind, rendered

Grant = tuple[str, str, str, bool]
"""Group, resource, verb, and whether it is for one name alone."""


def wanted(*rights: Right) -> set[Grant]:
    """Return the grants that these rights come to."""
    return {
        (right.group, right.resource, verb, right.one_name)
        for right in rights
        for verb in right.verbs
    }


def granted(role: Json) -> set[Grant]:
    """Return what a role grants; no rule grants anything twice, or by a wildcard."""
    found = [
        (group, resource, verb, "resourceNames" in rule)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    assert len(found) == len(set(found))
    assert not any("*" in word for grant in found for word in grant[:3])
    return set(found)


def roles_of(objects: list[Json]) -> dict[tuple[str, str | None], Json]:
    """Return the roles of the operator's account by their kind and namespace, through bindings."""
    (account,) = {
        each["spec"]["template"]["spec"]["serviceAccountName"]
        for each in of_kind(objects, "Deployment")
    }
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    found = {}
    for binding in [*of_kind(objects, "RoleBinding"), *of_kind(objects, "ClusterRoleBinding")]:
        if subject not in binding["subjects"]:
            continue
        namespace = binding["metadata"].get("namespace")
        kind = binding["roleRef"]["kind"]
        assert binding["kind"] == f"{kind}Binding"
        (role,) = (
            each
            for each in of_kind(objects, kind)
            if each["metadata"]["name"] == binding["roleRef"]["name"]
            and each["metadata"].get("namespace") == namespace
        )
        found[kind, namespace] = role
    return found


@pytest.mark.parametrize(
    "right",
    [each for each in (*RUNS, *KUEUE, *KSERVE) if "delete" in each.verbs],
    ids=lambda right: right.resource,
)
def test_what_the_operator_deletes_it_may_read(right: Right) -> None:
    """After a conflict it looks whether the object is still there."""
    assert "get" in right.verbs


@pytest.mark.parametrize("secrets", [False, True])
@pytest.mark.parametrize("served", [NAMESPACE, "measured"])
def test_namespaced_mode_grants_in_one_namespace(served: str, *, secrets: bool) -> None:
    """Namespaced: one Role in the served namespace, and nothing anywhere else."""
    values = {"allowSecrets": secrets, "watchNamespace": "" if served == NAMESPACE else served}
    roles = roles_of(rendered(values))
    assert list(roles) == [("Role", served)]
    assert granted(roles["Role", served]) == wanted(*RUNS, *LEASE, *(SECRETS if secrets else ()))


@pytest.mark.parametrize("secrets", [False, True])
def test_cluster_mode_grants_everywhere_but_the_lease(*, secrets: bool) -> None:
    """Cluster: a ClusterRole for runs; the Lease is in the release's namespace alone."""
    roles = roles_of(rendered({"mode": "Cluster", "allowSecrets": secrets}))
    assert set(roles) == {("ClusterRole", None), ("Role", NAMESPACE)}
    everywhere = roles["ClusterRole", None]
    more = SECRETS if secrets else ()
    assert granted(everywhere) == wanted(*RUNS, *OTHER_OPERATORS, *more)
    assert granted(roles["Role", NAMESPACE]) == wanted(*LEASE)


def test_kueue_is_granted_only_where_it_is_enabled() -> None:
    """Workloads where runs are; flavors and priority classes, which have no namespace, anywhere."""
    values = {"kueue": {"enabled": True}}
    roles = roles_of(rendered(values))
    assert set(roles) == {("Role", NAMESPACE), ("ClusterRole", None)}
    assert granted(roles["Role", NAMESPACE]) == wanted(*RUNS, *LEASE, *KUEUE)
    assert granted(roles["ClusterRole", None]) == wanted(*KUEUE_CLUSTER)
    roles = roles_of(rendered({**values, "mode": "Cluster"}))
    assert granted(roles["ClusterRole", None]) == wanted(
        *RUNS, *OTHER_OPERATORS, *KUEUE, *KUEUE_CLUSTER
    )
    assert granted(roles["Role", NAMESPACE]) == wanted(*LEASE)


def test_kserve_is_granted_only_where_it_is_enabled() -> None:
    """InferenceServices and ReplicaSets, where runs are and nowhere else."""
    roles = roles_of(rendered({"kserve": {"enabled": True}}))
    assert set(roles) == {("Role", NAMESPACE)}
    assert granted(roles["Role", NAMESPACE]) == wanted(*RUNS, *LEASE, *KSERVE)
    roles = roles_of(rendered({"kserve": {"enabled": True}, "mode": "Cluster"}))
    assert granted(roles["ClusterRole", None]) == wanted(*RUNS, *OTHER_OPERATORS, *KSERVE)


@pytest.mark.parametrize("mode", ["Namespaced", "Cluster"])
def test_nodes_are_readable_only_where_suites_choose_them(mode: str) -> None:
    """In the whole cluster, because nodes have no namespace."""
    roles = roles_of(rendered({"mode": mode, "readNodes": True}))
    more = wanted(*RUNS, *OTHER_OPERATORS) if mode == "Cluster" else set()
    assert granted(roles["ClusterRole", None]) == wanted(*NODES) | more
    assert ("ClusterRole", None) in roles_of(rendered({"mode": "Cluster"}))
    assert ("ClusterRole", None) not in roles_of(rendered())


@pytest.mark.parametrize("mode", ["Namespaced", "Cluster"])
def test_the_only_renewable_lease_is_the_operators(mode: str) -> None:
    """The one Lease that may be read and renewed has the name and namespace the operator uses."""
    objects = rendered({"mode": mode})
    role = roles_of(objects)["Role", NAMESPACE]
    names = [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule]
    (deployment,) = of_kind(objects, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    options = dict(word.split("=", 1) for word in container["args"])
    assert names == [[options.get("--lease", "inferometer-operator")]]
    assert options["--lease-namespace"] == NAMESPACE


def test_the_test_may_make_runs_and_no_more() -> None:
    """The account of `helm test` may create, get and delete runs."""
    (role,) = (
        each for each in of_kind(rendered(), "Role") if each["metadata"]["name"].endswith("-test")
    )
    runs = ("inferometer.dev", "benchmarkruns")
    assert granted(role) == {(*runs, verb, False) for verb in ("create", "get", "delete")}


def test_users_roles_are_about_runs() -> None:
    """View, edit and admin gain rights on runs and on what configures an operator."""
    aggregate = "rbac.authorization.k8s.io/aggregate-to-"
    made = of_kind(rendered(), "ClusterRole")
    roles = {
        role: {
            grant
            for each in made
            if f"{aggregate}{role}" in each["metadata"]["labels"]
            for grant in granted(each)
        }
        for role in ("view", "edit", "admin")
    }
    plurals = ("benchmarkruns", "benchmarksuites", "nodebenchmarks")
    kinds = [("inferometer.dev", name) for name in plurals]
    changing = ("create", "update", "patch", "delete", "deletecollection")
    edit = {(*kind, verb, False) for kind in kinds for verb in changing}
    assert roles == {
        "view": {(*kind, verb, False) for kind in kinds for verb in ("get", "list", "watch")},
        "edit": edit,
        "admin": edit
        | {
            ("inferometer.dev", "benchmarkruns/status", "patch", False),
            ("inferometer.dev", "benchmarksuites/status", "patch", False),
            ("inferometer.dev", "nodebenchmarks/status", "patch", False),
            ("", "events", "create", False),
        },
    }


def test_the_how_to_lists_each_right() -> None:
    """The table of rights in the how-to is the operator's, verb for verb."""
    text = (CHECKOUT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    table = text.partition("| resource | verbs | for |")[2].partition("\n\n")[0]
    documented = {
        (resource, verb)
        for row in table.splitlines()[2:]
        for resource in re.findall(r"`([^`]+)`", row.split("|")[1])
        for verb in re.findall(
            r"\b(?:get|list|watch|create|update|patch|delete)\b", row.split("|")[2]
        )
    }
    assert documented == {
        (resource, verb)
        for _, resource, verb, _ in wanted(
            *RUNS, *SECRETS, *LEASE, *KUEUE, *KUEUE_CLUSTER, *NODES, *KSERVE
        )
    }
