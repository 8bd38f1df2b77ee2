"""Valid and invalid runs, with the verdict that every judge must reach.

One table for two judges: pydantic, and an API server under strict field validation. A row is a
whole object, sent as JSON. Rows with `before` are updates: only transition rules, which an API
server alone can hold, judge them, so that they are not for pydantic.
"""

from typing import Any

from support.run_bounds import bound_rows
from support.runs import Row, Run, a_run, a_scenario, an_external_run, with_value

_MIX: list[dict[str, Any]] = [{"model": "m", "weight": 3}, {"model": "n", "weight": "0.5"}]
_WORKERS = ("spec", "load", "workers")
_FILE = ("spec", "load", "inputs", "file")


def _mixed(mix: list[dict[str, Any]], **members: Any) -> Run:
    return an_external_run(scenarios=[{"name": "a", "mix": mix, **members}])


_MIXABLE: tuple[dict[str, Any], ...] = (
    {"singleStream": {}},
    {"findPeak": {"latencyBoundMicroseconds": 9}},
    {"batch": {"batchSizes": [1]}},
)
_MIXED_SCENARIO = [{"name": "a", "mix": _MIX, "singleStream": {}}]
_SAMPLED = {"dataset": {"uri": "builtin://digits"}, "metrics": ["Top1"]}
_NOT_SAMPLED: dict[str, dict[str, Any]] = {
    "of a batch": {"batch": {"batchSizes": [1]}},
    "of a trace": {"trace": {"uri": "file:a"}},
    "of a mix": {"singleStream": {}, "mix": _MIX},
}
_SERVED_STEPS: dict[str, Any] = {
    "model": {
        "uri": "zoo://classification/resnet50",
        "manifest": {"uri": "file:m.yaml"},
        "pipeline": "Server",
    },
    "scenarios": [
        {"name": "a", "singleStream": {}, "sampledAccuracy": _SAMPLED},
        {"name": "b", "accuracy": _SAMPLED},
    ],
}
_NO_SERVED_STEPS: dict[str, tuple[dict[str, Any], str]] = {
    "of Triton": ({"server": {"runtime": "Triton"}}, "spec"),
    "of MLServer": ({"server": {"runtime": "MLServer"}}, "spec"),
    "for random tensors": ({"scenarios": [{"name": "a", "singleStream": {}}]}, "spec"),
    "without a manifest": (
        {"model": {"uri": "zoo://classification/resnet50", "pipeline": "Server"}},
        "spec.model",
    ),
}
_NO_OTHER_MODELS: dict[str, dict[str, Any]] = {
    "without a mix": {},
    "of Triton": {"server": {"runtime": "Triton"}, "scenarios": _MIXED_SCENARIO},
}


RIGHT_URLS = (
    "http://10.0.0.1:8000",
    "https://my_models.team-1.svc:8443/some/%C3%A4/~x;v=1,a@b!",
    "http://[::1]:8000/",
    "http://a.example.:80",
    f"http://{63 * 'a'}.{63 * 'b'}",
    "http://[fe80::1%eth0]",
    "http://[1:2:3:4:5:6:7:8]",
    "http://[1:2:3:4:5:6:7::]:1",
    "http://[::ffff:10.0.0.1]:1",
    "http://h:/",
    "http://h:1",
    "http://h:0080",
    "http://h:65535",
)
"""Addresses of External servers that are taken."""

WRONG_URLS = {
    "http://mü.local:8000": "ASCII",
    "http://h/ä": "ASCII",
    "http://h/\t": "ASCII",
    "http://h/\r\nX:y": "ASCII",
    "http://h\n": "ASCII",
    "http://a b": "no blanks",
    'http://h/"': "no quotes",
    "HTTP://h": "lower case",
    "ftp://h": "must begin with http://",
    "127.0.0.1:8000": "must begin with http://",
    "http:/h": "must begin with http://",
    "": "ASCII",
    "http://secret@h": "a user or a password",
    "http://user:secret@h:1": "a user or a password",
    "http://user:secret@h/a@b": "a user or a password",
    "http://user:secret/@h": "port",
    "user:secret@h": "must begin with http://",
    "http://user:secret@ä": "ASCII",
    "http://h/?a": "query",
    "http://h?a": "query",
    "http://h/#a": "fragment",
    "http://": "host",
    "http:///x": "host",
    "http://:80": "host",
    "http://a..b:80": "host",
    "http://.b": "host",
    "http://.": "host",
    f"http://a.{64 * 'b'}:80": "host",
    "http://[": "host",
    "http://[]:1": "host",
    "http://[::1": "host",
    "http://::1:80": "host",
    "http://[::1]x": "host",
    "http://[::1::2]": "IPv6 address in its brackets",
    "http://[1:2:3:4:5:6:7]": "IPv6 address in its brackets",
    "http://[1:2:3:4:5:6:7::8:9]": "IPv6 address in its brackets",
    "http://[::ffff:10.0.0.256]": "IPv6 address in its brackets",
    "http://[12345::]": "IPv6 address in its brackets",
    "http://[10.0.0.1]:1": "IPv6 address in its brackets",
    "http://h:0": "from 1 to 65535",
    "http://h:99999": "from 1 to 65535",
    "http://h:65536": "from 1 to 65535",
    "http://h:x": "from 1 to 65535",
    "http://h:1:2": "from 1 to 65535",
    "http://[::1]:0": "from 1 to 65535",
}
"""Addresses of External servers that are not, each with what its sentence speaks of."""


def _whole() -> Run:
    """Return a run with every member that can be combined with the others."""
    return a_run(
        model={"uri": "https://host/model.onnx", "sha256": "0" * 64},
        server={
            "runtime": "OnnxRuntime",
            "device": "GPU",
            "gpu": {"resource": "nvidia.com/mig-1g.10gb", "count": 2},
            "replicas": 2,
            "instances": 2,
            "threads": 4,
            "batching": {"maxBatchSize": 32, "maxDelayMicroseconds": 500},
            "resources": {"cpu": "2500m", "memory": "4Gi"},
            "placement": {
                "nodeSelector": {"kubernetes.io/arch": "amd64", "empty": ""},
                "tolerations": [
                    {"key": "a/b", "value": "c", "effect": "NoExecute", "tolerationSeconds": 5},
                    {"operator": "Exists"},
                ],
            },
            "readyDeadlineSeconds": 60,
        },
        load={
            "protocol": "GRPC",
            "connections": 2,
            "streamsPerConnection": 4,
            "workers": 2,
            "seed": 7,
            "pacing": "Spin",
            "requestTimeoutMilliseconds": 100,
            "inputs": {"random": {"poolSize": 4, "shapes": {"input": [1, 3, 48, 192], "n": []}}},
            "tls": {"caSecret": "ca", "clientSecret": "client", "serverName": "host"},
            "headersSecret": "headers",
        },
        scenarios=[
            {"name": "latency", "singleStream": {}},
            {"name": "traffic", "server": {"targetQps": "12.5", "latencyBoundMicroseconds": 200}},
            {"name": "throughput", "batch": {"batchSizes": [1, 8, 32]}},
            {"name": "streams", "multiStream": {"samplesPerQuery": 8}},
            {"name": "capacity", "findPeak": {"latencyBoundMicroseconds": 200, "probe": {}}},
            {"name": "clients", "concurrency": {"clients": [1, 2, 4]}},
            {"name": "offline", "offline": {"samples": 24576, "batchSize": 32}},
            {
                "name": "burst",
                "burst": {"baseQps": 5, "burstQps": 40, "burstSeconds": 2, "periodSeconds": 10},
            },
            {"name": "replay", "trace": {"uri": "configmap://times/a.csv", "timeScale": "0.5"}},
        ],
        validity={"rules": "MLPerf", "warmUp": "Fixed", "warmUpSeconds": 0, "repeats": 3},
        telemetry={"power": "Disabled", "idleSeconds": 0},
        activeDeadlineSeconds=60,
        retention={
            "cleanup": "Never",
            "ttlSecondsAfterFinished": 0,
            "export": {"uri": "s3://kept/of/team", "credentialsSecret": "export-keys"},
        },
        suspend=True,
        cancel=True,
    )


_ALL_NULL = {
    "model": {"uri": "zoo://a/b", "sha256": None, "name": None},
    "server": {"gpu": None, "threads": None, "runtime": None, "resources": None},
    "load": {"inputs": {"random": {"shapes": {"a": None}}, "file": None}, "tls": None},
    "scenarios": [{"name": "one", "singleStream": {}, "server": None, "batch": None}],
    "validity": None,
    "suspend": None,
}

VALID = (
    Row("the smallest run", a_run()),
    Row("every member", _whole()),
    Row("nulls in optional places", a_run(**_ALL_NULL)),
    Row("status is null", {**a_run(), "status": None}),
    Row("labels and annotations", with_value(a_run(), ("metadata", "labels"), {"a": "b"})),
    Row("an external url", an_external_run()),
    Row(
        "an external gRPC url",
        an_external_run(
            server={"runtime": "External", "external": {"url": "grpc://h:1"}},
            load={"protocol": "GRPC"},
        ),
    ),
    *(
        Row(
            f"the url {url}",
            an_external_run(server={"runtime": "External", "external": {"url": url}}),
        )
        for url in RIGHT_URLS
    ),
    Row(
        "an external Service",
        an_external_run(
            server={"runtime": "External", "external": {"service": {"name": "s", "port": 80}}}
        ),
    ),
    Row("a rate as a string", a_scenario(server={"targetQps": "16.5"})),
    Row("a rate with an integral fraction", a_scenario(server={"targetQps": 8.0})),
    Row("the smallest rate", a_scenario(server={"targetQps": "0.001"})),
    Row("CPU as a number", a_run(server={"resources": {"cpu": 2, "memory": 2000000000}})),
    Row("CPU with an integral fraction", a_run(server={"resources": {"cpu": 2.0}})),
    Row("CPU with decimals", a_run(server={"resources": {"cpu": "0.5"}})),
    Row("an empty server", a_run(server={})),
    Row("Triton's back end", a_run(server={"runtime": "Triton", "tritonBackend": "Python"})),
    Row("a server of the admin's", a_run(server={"runtime": "Custom", "custom": {"name": "a"}})),
    *(
        Row(
            f"the provider {provider}",
            a_run(server={"device": "GPU", "onnxRuntime": {"provider": provider}}),
        )
        for provider in ("CUDA", "TensorRT")
    ),
    *(
        Row(f"the certificate of {name}", a_run(load={"tls": {"serverName": name}}))
        for name in ("Models.example.com", "triton_0.models", "10.0.0.7", "fd00::7")
    ),
    Row(
        "a model whose tensors are declared",
        an_external_run(
            model={
                "name": "m",
                "inputs": [
                    {"name": "x", "datatype": "BYTES", "shape": [-1, 4]},
                    {"name": "n", "datatype": "INT32", "shape": []},
                ],
                "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1]}],
            },
            load={"tensors": "Json", "reconnectDeadlineSeconds": 60},
        ),
    ),
    Row("a warm-up until it is steady", a_run(validity={"warmUp": "UntilSteady"})),
    Row("a cold start", a_run(scenarios=[{"name": "a", "coldStart": {}}])),
    *(Row(f"a mix in {next(iter(each))}", _mixed(_MIX, **each)) for each in _MIXABLE),
    Row(
        "accuracy under load",
        a_scenario(server={"targetQps": 5}, sampledAccuracy={**_SAMPLED, "sampleEvery": 2}),
    ),
    *(
        Row(f"steps in the server of {each}", a_run(**_SERVED_STEPS, server={"runtime": each}))
        for each in ("OnnxRuntime", "OpenVino", "KServe")
    ),
    Row(
        "steps in the server of the model's own manifest",
        a_run(**{**_SERVED_STEPS, "model": {"uri": "file:a/m.onnx", "pipeline": "Server"}}),
    ),
    Row(
        "a mix of a launched server",
        a_run(otherModels=[{"uri": "zoo://a/m"}], scenarios=_MIXED_SCENARIO),
    ),
    Row(
        "a mix with weights by rank",
        _mixed([{"model": "m"}, {"model": "n"}], singleStream={}, mixWeights="Pareto"),
    ),
    Row("repeats of the server", a_run(validity={"repeats": 2, "repeatScope": "Server"})),
    Row("repeats of the load", an_external_run(validity={"repeats": 2, "repeatScope": "Load"})),
    Row(
        "bounds that are equal", a_run(validity={"minDurationSeconds": 9, "maxDurationSeconds": 9})
    ),
    Row(
        "a batch as large as the server's",
        a_run(
            server={"batching": {"maxBatchSize": 8}},
            scenarios=[{"name": "a", "batch": {"batchSizes": [8]}}],
        ),
    ),
)

_NO_BATCH = {"batching": {"maxBatchSize": 8}}

_NO_COLD_STARTS: dict[str, dict[str, Any]] = {
    "of several replicas": {"server": {"replicas": 2}},
    "by a fleet": {"load": {"workers": 2}},
    "of a server that stays": {"validity": {"repeatScope": "Load"}},
    "after other queries": {
        "scenarios": [{"name": "b", "singleStream": {}}, {"name": "a", "coldStart": {}}]
    },
    "twice": {"scenarios": [{"name": "b", "coldStart": {}}, {"name": "a", "coldStart": {}}]},
}

BROKEN_RULES = (
    *(
        Row(f"steps in the server {name}", a_run(**{**_SERVED_STEPS, **changed}), place)
        for name, (changed, place) in _NO_SERVED_STEPS.items()
    ),
    *(
        Row(f"other models {name}", a_run(otherModels=[{"uri": "file:a"}], **spec), "spec")
        for name, spec in _NO_OTHER_MODELS.items()
    ),
    Row(
        "another model from https without sha256",
        a_run(otherModels=[{"uri": "https://h/m"}], scenarios=_MIXED_SCENARIO),
        "spec.otherModels[0]",
    ),
    *(
        Row(f"sampled accuracy {name}", a_scenario(sampledAccuracy=_SAMPLED, **members), "spec")
        for name, members in _NOT_SAMPLED.items()
    ),
    Row(
        "sampled accuracy by a fleet",
        with_value(a_scenario(singleStream={}, sampledAccuracy=_SAMPLED), _WORKERS, 2),
        "spec",
    ),
    Row("a mix of one model", _mixed(_MIX[:1], singleStream={}), "spec.scenarios[0].mix"),
    Row(
        "a mix that names a model twice",
        _mixed([_MIX[0], _MIX[0]], singleStream={}),
        "spec.scenarios[0].mix[1]",
    ),
    *(
        Row(
            f"a mix with the weight {weight!r}",
            _mixed([_MIX[0], {"model": "n", "weight": weight}], singleStream={}),
            "spec.scenarios[0].mix[1].weight",
        )
        for weight in (0, -1, "0", "1e3")
    ),
    Row(
        "a mix in which one model has no weight",
        _mixed([_MIX[0], {"model": "n"}], singleStream={}),
        "spec.scenarios[0]",
    ),
    Row(
        "weights and mixWeights",
        _mixed(_MIX, singleStream={}, mixWeights="Zipf"),
        "spec.scenarios[0]",
    ),
    Row(
        "mixWeights without a mix",
        a_scenario(singleStream={}, mixWeights="Zipf"),
        "spec.scenarios[0]",
    ),
    Row("a mix in a profile", _mixed(_MIX, profile={}), "spec"),
    Row(
        "a mix of accuracy",
        _mixed(_MIX, accuracy={"dataset": {"uri": "builtin://digits"}, "metrics": ["Top1"]}),
        "spec",
    ),
    Row("a mix by a fleet", with_value(_mixed(_MIX, singleStream={}), _WORKERS, 2), "spec"),
    Row(
        "a mix with inputs from a file",
        with_value(_mixed(_MIX, singleStream={}), _FILE, {"uri": "file:a"}),
        "spec",
    ),
    Row("neither uri nor name", a_run(model={}), "spec.model"),
    Row("uri and name", a_run(model={"uri": "zoo://a/b", "name": "c"}), "spec.model"),
    Row("version without name", a_run(model={"uri": "zoo://a/b", "version": "1"}), "spec.model"),
    *(
        Row(
            f"{field} of a model that is not External",
            a_run(
                model={
                    "uri": "zoo://a/b",
                    field: [{"name": "x", "datatype": "FP32", "shape": [1]}],
                }
            ),
            "spec.model",
        )
        for field in ("inputs", "outputs")
    ),
    Row(
        "JSON over gRPC",
        a_run(load={"protocol": "GRPC", "tensors": "Json"}),
        "spec.load",
    ),
    *(
        Row(
            f"a profile with {next(iter(load))}",
            a_run(scenarios=[{"name": "a", "profile": {}}], load=load),
            "spec",
        )
        for load in ({"protocol": "GRPC"}, {"workers": 2})
    ),
    Row(
        "accuracy by a fleet",
        a_run(
            scenarios=[
                {
                    "name": "a",
                    "accuracy": {"dataset": {"uri": "builtin://digits"}, "metrics": ["Top1"]},
                }
            ],
            load={"workers": 2},
        ),
        "spec",
    ),
    Row(
        "a data set from https without sha256",
        a_run(
            scenarios=[
                {
                    "name": "a",
                    "accuracy": {"dataset": {"uri": "https://h/d.zip"}, "metrics": ["Top1"]},
                }
            ]
        ),
        "spec.scenarios[0].accuracy.dataset",
    ),
    Row(
        "a manifest from https without sha256",
        a_run(model={"uri": "file:m", "manifest": {"uri": "https://h/m.yaml"}}),
        "spec.model.manifest",
    ),
    *(
        Row(
            f"a cold start {name}",
            a_run(**{"scenarios": [{"name": "a", "coldStart": {}}], **spec}),
            "spec",
        )
        for name, spec in _NO_COLD_STARTS.items()
    ),
    Row(
        "a cold start of an External server",
        an_external_run(scenarios=[{"name": "a", "coldStart": {}}]),
        "spec",
    ),
    Row(
        "bricks of a model that is not built in",
        a_run(scenarios=[{"name": "a", "bricks": {"models": ["file:model.onnx"]}}]),
        "spec.scenarios[0].bricks.models[0]",
    ),
    Row("compressed HTTP", a_run(load={"compression": "Gzip"}), "spec.load"),
    Row("https without sha256", a_run(model={"uri": "https://h/m"}), "spec.model"),
    Row(
        "inputs from https without sha256",
        a_run(load={"inputs": {"file": {"uri": "https://h/i.npz"}}}),
        "spec.load.inputs.file",
    ),
    Row(
        "a trace from https without sha256",
        a_run(scenarios=[{"name": "a", "trace": {"uri": "https://h/t.csv"}}]),
        "spec.scenarios[0].trace",
    ),
    Row(
        "sha256 of nothing", an_external_run(model={"name": "m", "sha256": "0" * 64}), "spec.model"
    ),
    Row(
        "a cached model without checksum",
        a_run(model={"uri": "s3://b/m.onnx", "cache": "Node"}),
        "spec.model",
    ),
    Row(
        "a built-in model from the cache",
        a_run(model={"uri": "zoo://a/b", "sha256": "0" * 64, "cache": "Node"}),
        "spec.model",
    ),
    Row(
        "a Secret for file:", a_run(model={"uri": "file:m", "credentialsSecret": "s"}), "spec.model"
    ),
    Row(
        "an export without keys",
        a_run(retention={"export": {"uri": "s3://kept/of/team"}}),
        "spec.retention.export",
    ),
    Row(
        "an export to a claim with keys",
        a_run(retention={"export": {"uri": "pvc://kept/a", "credentialsSecret": "s"}}),
        "spec.retention.export",
    ),
    Row(
        "an export to a site",
        a_run(retention={"export": {"uri": "https://h/a", "credentialsSecret": "s"}}),
        "spec.retention.export.uri",
    ),
    Row("name without External", a_run(model={"name": "m"}), "spec"),
    Row("External without name", an_external_run(model={"uri": "zoo://a/b"}), "spec"),
    Row("External without a place", an_external_run(server={"runtime": "External"}), "spec.server"),
    Row("a place without External", a_run(server={"external": {"url": "http://h"}}), "spec.server"),
    Row("gpu on a CPU", a_run(server={"gpu": {}}), "spec.server"),
    Row("Custom without a name", a_run(server={"runtime": "Custom"}), "spec.server"),
    Row("a name without Custom", a_run(server={"custom": {"name": "a"}}), "spec.server"),
    Row("Triton's back end elsewhere", a_run(server={"tritonBackend": "Python"}), "spec.server"),
    Row(
        "ONNX Runtime's choices elsewhere",
        a_run(server={"runtime": "OpenVino", "onnxRuntime": {}}),
        "spec.server",
    ),
    Row(
        "a provider of GPUs on a CPU",
        a_run(server={"onnxRuntime": {"provider": "CUDA"}}),
        "spec.server",
    ),
    Row(
        "a provider of CPUs on a GPU",
        a_run(server={"device": "GPU", "onnxRuntime": {"provider": "XNNPACK"}}),
        "spec.server",
    ),
    *(
        Row(
            f"{name} on a CPU",
            a_run(server={"onnxRuntime": {name: True}}),
            "spec.server.onnxRuntime",
        )
        for name in ("cudaGraph", "channelsLast", "tf32")
    ),
    Row(
        "CUDA graphs by another provider",
        a_run(server={"device": "GPU", "onnxRuntime": {"provider": "TensorRT", "cudaGraph": True}}),
        "spec.server.onnxRuntime",
    ),
    Row(
        "inter-op threads in sequence",
        a_run(server={"onnxRuntime": {"interOpThreads": 2}}),
        "spec.server.onnxRuntime",
    ),
    *(
        Row(
            f"External with {name}",
            with_value(an_external_run(), ("spec", "server", name), value),
            "spec.server",
        )
        for name, value in {
            "threads": 1,
            "batching": {"maxBatchSize": 1},
            "device": "GPU",
            "replicas": 2,
            "instances": 2,
        }.items()
    ),
    *(
        Row(
            f"the url {url}",
            an_external_run(server={"runtime": "External", "external": {"url": url}}),
            "spec.server.external.url",
        )
        for url in WRONG_URLS
    ),
    Row("the url of another protocol", an_external_run(load={"protocol": "GRPC"}), "spec"),
    Row(
        "no external member",
        an_external_run(server={"runtime": "External", "external": {}}),
        "spec.server.external",
    ),
    Row(
        "two external members",
        with_value(
            an_external_run(), ("spec", "server", "external", "service"), {"name": "s", "port": 1}
        ),
        "spec.server.external",
    ),
    *(
        Row(
            name,
            a_run(server={"placement": {"tolerations": [toleration]}}),
            "spec.server.placement.tolerations[0]",
        )
        for name, toleration in {
            "a toleration of nothing": {},
            "a value that Exists": {"key": "a", "operator": "Exists", "value": "b"},
            "seconds of no effect": {"key": "a", "tolerationSeconds": 1},
        }.items()
    ),
    Row("no inputs", a_run(load={"inputs": {}}), "spec.load.inputs"),
    Row("nulls for inputs", a_run(load={"inputs": {"random": None}}), "spec.load.inputs"),
    Row(
        "two inputs",
        a_run(load={"inputs": {"random": {}, "file": {"uri": "file:a"}}}),
        "spec.load.inputs",
    ),
    Row("a certificate without key", a_run(load={"tls": {"clientKeyFile": "k"}}), "spec.load.tls"),
    Row("two authorities", a_run(load={"tls": {"caFile": "c", "caSecret": "c"}}), "spec.load.tls"),
    Row(
        "two certificates",
        a_run(
            load={"tls": {"clientSecret": "c", "clientCertificateFile": "c", "clientKeyFile": "k"}}
        ),
        "spec.load.tls",
    ),
    Row(
        "a fleet that traces",
        a_run(load={"workers": 2, "tracing": {"sampleEvery": 100}}),
        "spec.load.tracing",
    ),
    Row("two sets of headers", a_run(load={"headersSecret": "h", "headersFile": "h"}), "spec.load"),
    Row("a scenario without member", a_scenario(), "spec.scenarios[0]"),
    Row("a scenario with a null", a_scenario(singleStream=None), "spec.scenarios[0]"),
    Row(
        "a scenario with two members",
        a_scenario(singleStream={}, batch={"batchSizes": [1]}),
        "spec.scenarios[0]",
    ),
    Row(
        "a burst longer than its period",
        a_scenario(burst={"baseQps": 1, "burstQps": 2, "burstSeconds": 5, "periodSeconds": 5}),
        "spec.scenarios[0].burst",
    ),
    Row("the least above the most", a_run(validity={"minDurationSeconds": 601}), "spec.validity"),
    Row(
        "MLPerf's rules without a bound",
        a_run(
            validity={"rules": "MLPerf"},
            scenarios=[{"name": "s", "server": {"targetQps": 1}}],
        ),
        "spec.scenarios",
    ),
    Row(
        "MLPerf's rules for a P90",
        a_run(
            validity={"rules": "MLPerf"},
            scenarios=[
                {
                    "name": "s",
                    "server": {
                        "targetQps": 1,
                        "latencyBoundMicroseconds": 1,
                        "percentile": "P90",
                    },
                }
            ],
        ),
        "spec.scenarios",
    ),
    Row(
        "MLPerf's rules in less than its duration",
        a_run(validity={"rules": "MLPerf", "maxDurationSeconds": 599}),
        "spec.validity",
    ),
    Row(
        "repeats of an External server",
        an_external_run(validity={"repeats": 2, "repeatScope": "Server"}),
        "spec.validity.repeatScope",
    ),
    Row(
        "a search that warms up until it is steady",
        a_run(
            validity={"warmUp": "UntilSteady"},
            scenarios=[
                {"name": "latency", "singleStream": {}},
                {"name": "peak", "findPeak": {"latencyBoundMicroseconds": 1}},
            ],
        ),
        "spec",
    ),
    Row(
        "probes too short for a query to be late",
        a_scenario(findPeak={"latencyBoundMicroseconds": 15_000_000, "probe": {"maxSeconds": 15}}),
        "spec.scenarios[0].findPeak.latencyBoundMicroseconds",
    ),
    Row(
        "probes too short for the default length",
        a_scenario(findPeak={"latencyBoundMicroseconds": 60_000_000}),
        "spec.scenarios[0].findPeak.latencyBoundMicroseconds",
    ),
    Row(
        "probes whose queries take too long at any rate",
        a_scenario(
            findPeak={
                "latencyBoundMicroseconds": 1,
                "probe": {"minQueries": 100_000_000, "maxSeconds": 10},
            }
        ),
        "spec.scenarios[0].findPeak.probe.maxSeconds",
    ),
    *(
        Row(
            f"{kind} larger than the server's batch",
            a_run(server=_NO_BATCH, scenarios=[{"name": "a", kind: member}]),
            "spec.scenarios[0]",
        )
        for kind, member in {
            "batch": {"batchSizes": [1, 9]},
            "offline": {"batchSize": 9},
            "multiStream": {"samplesPerQuery": 9},
        }.items()
    ),
    Row(
        "two scenarios of one name",
        a_run(scenarios=[{"name": "a", "singleStream": {}}, {"name": "a", "offline": {}}]),
        "spec.scenarios[1]",
    ),
    Row(
        "a batch size twice",
        a_scenario(batch={"batchSizes": [1, 8, 1]}),
        "spec.scenarios[0].batch.batchSizes[2]",
    ),
)

_SELECTOR = "spec.server.placement.nodeSelector"

_WRONG_RATES: tuple[object, ...] = (
    *(16.5, "16.5555", "-1", "1e3", "0", "0.000", "", " 5", "5\n"),
    *(True, [], {}),
)

MISFITS = (
    Row("a misspelt top field", {**a_run(), "sepc": {}}, "sepc"),
    Row(
        "a misspelt metadata field", with_value(a_run(), ("metadata", "nmae"), "a"), "metadata.nmae"
    ),
    Row("no spec", {k: v for k, v in a_run().items() if k != "spec"}, "spec"),
    Row("spec is null", {**a_run(), "spec": None}, "spec"),
    Row("no name", {**a_run(), "metadata": {}}, "metadata.name"),
    Row("a name in capitals", {**a_run(), "metadata": {"name": "A"}}, "metadata.name"),
    Row("a null scenario", a_run(scenarios=[None]), "spec.scenarios[0]"),
    Row(
        "a null batch size",
        a_scenario(batch={"batchSizes": [1, None]}),
        "spec.scenarios[0].batch.batchSizes[1]",
    ),
    Row(
        "a batch size as text",
        a_scenario(batch={"batchSizes": ["8"]}),
        "spec.scenarios[0].batch.batchSizes[0]",
    ),
    *(
        Row(
            f"a rate of {rate!r}",
            a_scenario(server={"targetQps": rate}),
            "spec.scenarios[0].server.targetQps",
        )
        for rate in _WRONG_RATES
    ),
    *(
        Row(
            f"CPU of {cpu!r}",
            a_run(server={"resources": {"cpu": cpu}}),
            "spec.server.resources.cpu",
        )
        for cpu in (0, 0.5, "0", "0m", "1Gi", "1.0000", True)
    ),
    Row(
        "a node label with a blank",
        a_run(server={"placement": {"nodeSelector": {"a b": "c"}}}),
        _SELECTOR,
    ),
    Row(
        "a node label of a number",
        a_run(server={"placement": {"nodeSelector": {"a": 1}}}),
        _SELECTOR,
    ),
    *(
        Row(
            f"a certificate of {name!r}",
            a_run(load={"tls": {"serverName": name}}),
            "spec.load.tls.serverName",
        )
        for name in ("", "a b", "a..b", ".a", "-a", "https://a")
    ),
    Row(
        "a shape without a name",
        a_run(load={"inputs": {"random": {"shapes": {"": [1]}}}}),
        "spec.load.inputs.random.shapes",
    ),
)

_STEPS = a_run(
    scenarios=[
        {"name": "sizes", "batch": {"batchSizes": [1, 8]}},
        {"name": "clients", "concurrency": {"clients": [1, 8]}},
    ]
)


def _update(name: str, place: tuple[str | int, ...], value: Any, path: str | None = None) -> Row:
    return Row(f"update: {name}", with_value(_STEPS, ("spec", *place), value), path, before=_STEPS)


_EXPORTED = with_value(_STEPS, ("spec", "retention"), {"export": {"uri": "pvc://kept/a"}})

UPDATES = (
    _update(
        "an export that is added",
        ("retention",),
        {"export": {"uri": "pvc://kept/a"}},
        "spec.retention.export",
    ),
    Row(
        "update: export",
        with_value(_EXPORTED, ("spec", "retention", "export", "uri"), "pvc://kept/b"),
        "spec.retention.export",
        before=_EXPORTED,
    ),
    Row(
        "update: an export that is removed",
        with_value(_EXPORTED, ("spec", "retention"), {}),
        "spec.retention.export",
        before=_EXPORTED,
    ),
    Row(
        "update: what surrounds an export",
        with_value(_EXPORTED, ("spec", "retention", "cleanup"), "Never"),
        before=_EXPORTED,
    ),
    _update("suspend", ("suspend",), value=True),
    _update("cancel", ("cancel",), value=True),
    _update("retention", ("retention",), {"cleanup": "Never"}),
    _update("a default that is said", ("validity", "minQueries"), 1024),
    _update("model", ("model", "uri"), "zoo://text/bert_base", "spec.model"),
    _update("server", ("server", "threads"), 2, "spec.server"),
    _update("load", ("load", "seed"), 43, "spec.load"),
    _update("a scenario's name", ("scenarios", 0, "name"), "other", "spec.scenarios"),
    _update("scenarios", ("scenarios", 0, "batch", "batchSizes"), [1], "spec.scenarios"),
    _update("validity", ("validity", "minQueries"), 5, "spec.validity"),
    _update("telemetry", ("telemetry", "idleSeconds"), 6, "spec.telemetry"),
    _update("deadline", ("activeDeadlineSeconds",), 6, "spec.activeDeadlineSeconds"),
    _update(
        "the order of scenarios",
        ("scenarios",),
        [*reversed(_STEPS["spec"]["scenarios"])],
        "spec.scenarios",
    ),
    _update(
        "the order of sizes", ("scenarios", 0, "batch", "batchSizes"), [8, 1], "spec.scenarios"
    ),
    _update(
        "the order of clients", ("scenarios", 1, "concurrency", "clients"), [8, 1], "spec.scenarios"
    ),
    Row(
        "update: cancel taken back",
        _STEPS,
        "spec.cancel",
        before=with_value(_STEPS, ("spec", "cancel"), value=True),
    ),
)
"""Rows that only a judge who knows the object before can judge."""


def rows() -> tuple[Row, ...]:
    """Return every row that a judge of new objects can judge."""
    return (*VALID, *BROKEN_RULES, *MISFITS, *bound_rows())
