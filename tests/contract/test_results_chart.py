"""The chart of the results service: what it makes, what it refuses, and what it lets callers do."""

import base64
import json
import ssl

import pytest
import yaml

from inferometer_api.results.service_paths import AUDIENCE, SERVICE_GROUP, SERVICE_VERSION
from inferometer_operator.settings import Settings
from inferometer_results.cluster.command import arguments
from inferometer_results.explore.prices import PricedNodes, read_prices
from support.chart import CHART, Json, check_named, check_schema, of_kind, rendered
from support.results_service import RESULTS_CHART, results_chart

OPERATORS = [{"namespace": "bench", "serviceAccount": "inferometer-operator"}]


def one(objects: list[Json], kind: str) -> Json:
    """Return the only object of a kind."""
    (found,) = of_kind(objects, kind)
    return found


def pod_of(objects: list[Json]) -> Json:
    """Return the spec of the pods."""
    spec: Json = one(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def test_the_certificate_is_for_the_service_that_the_api_server_calls() -> None:
    """Secret, APIService and the operators' ConfigMaps hold one authority."""
    made = results_chart({"operators": OPERATORS})
    secret, service = one(made, "Secret")["data"], one(made, "APIService")["spec"]
    authority = base64.b64decode(secret["ca.crt"]).decode()
    assert base64.b64decode(service["caBundle"]).decode() == authority
    told = one(made, "ConfigMap")
    assert told["data"]["ca.crt"].strip() == authority.strip()
    assert (told["metadata"]["namespace"], told["metadata"]["name"]) == (
        "bench",
        "inferometer-results",
    )
    assert told["data"]["url"] == "https://inferometer-results.results.svc"
    assert one(made, "APIService")["metadata"]["name"] == f"{SERVICE_VERSION}.{SERVICE_GROUP}"
    context = ssl.create_default_context(cadata=authority)
    assert context.cert_store_stats()["x509_ca"] == 1


def test_the_pod_is_restricted_and_its_words_are_known() -> None:
    """No root, no writable root, no capability; the program takes each of its words."""
    pod = pod_of(results_chart({"operators": OPERATORS}))
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    options = arguments().parse_args(container["args"])
    assert options.operator == ["bench/inferometer-operator"]
    assert (options.port, options.probe_port) == (8443, 8080)
    assert options.database == "/data/results.db"


def test_postgresql_needs_no_volume_and_takes_replicas() -> None:
    """The address with its password comes from a Secret, never from an argument."""
    made = results_chart({"database": {"secret": {"name": "pg"}}, "replicas": 3})
    assert not list(of_kind(made, "PersistentVolumeClaim"))
    assert one(made, "Deployment")["spec"]["replicas"] == 3
    options = arguments().parse_args(pod_of(made)["containers"][0]["args"])
    assert str(options.database_file) == "/etc/inferometer-database/url"


def test_sqlite_has_one_writer() -> None:
    """More replicas are refused, an upgrade stops the old pod first, and the claim is kept."""
    with pytest.raises(ValueError, match="SQLite takes one"):
        results_chart({"replicas": 2})
    made = results_chart()
    assert one(made, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    annotations = one(made, "PersistentVolumeClaim")["metadata"]["annotations"]
    assert annotations["helm.sh/resource-policy"] == "keep"


def test_prices_and_retention_reach_the_program() -> None:
    """The price list is one that the program reads; other prices start other pods."""
    prices = {"currency": "EUR", "nodes": [{"node": "bench-*", "perHour": 0.19}]}
    made = results_chart({"prices": prices, "retention": {"days": 90, "megabytes": 20000000}})
    options = arguments().parse_args(pod_of(made)["containers"][0]["args"])
    assert (options.keep_days, options.keep_megabytes) == (90, 20_000_000)
    config_map = one(made, "ConfigMap")
    mounts = pod_of(made)["containers"][0]["volumeMounts"]
    folder = next(each["mountPath"] for each in mounts if each["name"] == "prices")
    assert str(options.prices) == f"{folder}/prices.yaml"
    read = read_prices(config_map["data"]["prices.yaml"], "prices")
    assert read.per_million(PricedNodes(("bench-1",)), 100.0) is not None
    dearer = results_chart({"prices": prices | {"currency": "USD"}})
    first, second = (
        one(each, "Deployment")["spec"]["template"]["metadata"]["annotations"]
        for each in (made, dearer)
    )
    assert first["inferometer.dev/prices"] != second["inferometer.dev/prices"]
    without = results_chart()
    assert not list(of_kind(without, "ConfigMap"))
    options = arguments().parse_args(pod_of(without)["containers"][0]["args"])
    assert (options.keep_days, options.keep_megabytes, options.prices) == (0, 0, None)


def test_callers_reach_the_service_and_nothing_else() -> None:
    """What the chart grants to everyone is one subresource of this group."""
    made = results_chart()
    roles = {each["metadata"]["name"]: each["rules"] for each in of_kind(made, "ClusterRole")}
    granted = {
        each["roleRef"]["name"]
        for each in of_kind(made, "ClusterRoleBinding")
        if each["subjects"][0]["kind"] == "Group"
    }
    assert [roles[name] for name in granted] == [
        [
            {
                "apiGroups": [SERVICE_GROUP],
                "resources": ["explorers/proxy"],
                "verbs": ["get", "create", "delete"],
            }
        ]
    ]
    verbs = {verb for rules in roles.values() for rule in rules for verb in rule["verbs"]}
    assert verbs <= {"get", "list", "create", "delete"}


def test_the_operators_chart_connects_to_it() -> None:
    """With a URL the operator gets a token for this audience alone, and the authority."""
    made = rendered({"results": {"url": "https://inferometer-results.results.svc"}})
    settings = next(each for each in of_kind(made, "ConfigMap") if "settings.yaml" in each["data"])
    found = Settings.model_validate(yaml.safe_load(settings["data"]["settings.yaml"])).results
    assert found is not None
    assert found.web_url == "http://127.0.0.1:8091"
    pod = pod_of(made)
    volumes = {each["name"]: each for each in pod["volumes"]}
    mounts = {each["mountPath"]: each["name"] for each in pod["containers"][0]["volumeMounts"]}
    (source,) = volumes[mounts["/etc/inferometer-results-token"]]["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == AUDIENCE
    assert found.token_file.startswith("/etc/inferometer-results-token/")
    assert found.authority_file == "/etc/inferometer-results/ca.crt"
    assert volumes[mounts["/etc/inferometer-results"]]["configMap"]["name"] == "inferometer-results"
    without = rendered()
    assert "results-token" not in json.dumps(without)


@pytest.mark.parametrize(
    ("values", "place", "word"),
    [
        ({"operator": []}, "", "operator"),
        ({"operators": [{"namespace": "bench"}]}, "/operators/0", "serviceAccount"),
        ({"replicas": -1}, "/replicas", "minimum"),
        ({"tls": {"authority": "no certificate"}}, "/tls/authority", "pattern"),
        ({"volume": {"size": "much"}}, "/volume/size", "pattern"),
        ({"retention": {"days": -1}}, "/retention/days", "minimum"),
        ({"prices": {"nodes": [{"node": "x"}]}}, "/prices/nodes/0", "perHour"),
        ({"prices": {"nodes": [{"perHour": 1}]}}, "/prices/nodes/0", "anyOf"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(values: Json, place: str, word: str) -> None:
    """Helm names the place of a value that cannot be right, and what is wrong."""
    with pytest.raises(ValueError, match="values don't meet") as refused:
        results_chart(values)
    check_named(str(refused.value), place, word)


def test_the_schema_knows_every_value_and_no_other() -> None:
    """values.yaml names each value that the schema takes, down to the last, and nothing else."""
    check_schema(RESULTS_CHART)


def test_the_charts_have_one_version() -> None:
    """The chart carries the version of the operator's."""
    charts = [
        yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
        for chart in (CHART, RESULTS_CHART)
    ]
    versions = {(each["version"], each["appVersion"], each["kubeVersion"]) for each in charts}
    assert len(versions) == 1
