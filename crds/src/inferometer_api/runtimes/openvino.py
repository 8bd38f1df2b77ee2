"""OpenVino: the server of this project, which runs a model with OpenVINO on CPUs."""

from inferometer_api.runtimes.descriptor import (
    FetchedLayout,
    FieldLimit,
    LocalSupport,
    RuntimeDescriptor,
    ServerContainer,
    ServerLaunch,
)
from inferometer_api.runtimes.launch_refusals import LAUNCHED_REFUSALS, starts_without_tls
from inferometer_api.runtimes.onnxruntime import own_command, own_local_notes

OPENVINO = RuntimeDescriptor(
    launch=ServerLaunch(
        layout=lambda _: FetchedLayout(model_file="model.onnx", takes_any_path=True),
        # The image for CPUs has both engines.
        containers=lambda run, start: (
            ServerContainer(image="serving", command=own_command(run, start)),
        ),
        engine=lambda _: "openvino",
        fetcher_image=lambda _: "serving",
        ready_path="/v2/health/ready",
        stop_seconds=5,
        local=LocalSupport(
            program="OpenVINO",
            python_package="openvino",
            installation="inferometer[openvino]",
            announces_ports=True,
            notes=own_local_notes,
        ),
    ),
    limits=(FieldLimit("spec.server.device", lambda server: server.device, ("CPU",)),),
    refusals=LAUNCHED_REFUSALS,
    holds_several_models=True,
    runs_steps=True,
    times_layers=True,
    reports_spans=True,
    without_tls=starts_without_tls,
    restart_identity=("instance_id", "process_id"),
    varying_settings=("load_seconds", "warm_up_seconds"),
)
