# The images of Inferometer, one target each: operator, loadgen, telemetry, results, serving, serving-gpu.
#
#   docker build --target operator .
#
# docs/how-to/images.md lists the options. BASE_IMAGE may end with a digest: "python:3.11-slim-bookworm@sha256:...".
ARG BASE_IMAGE=python:3.11-slim-bookworm

# uv, the build back end and the lock
FROM ${BASE_IMAGE} AS build
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    PIP_CACHE_DIR=/build-cache/pip \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    UV_CACHE_DIR=/build-cache/uv \
    UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_PROJECT_ENVIRONMENT=/opt/inferometer \
    UV_PYTHON_DOWNLOADS=never \
    PYC_INVALIDATION_MODE=UNCHECKED_HASH
WORKDIR /build
COPY bootstrap.txt ./
RUN --mount=type=cache,target=/build-cache \
    --mount=type=secret,id=certificates,target=/etc/ssl/certs/ca-certificates.crt \
    python3 -m venv /opt/uv && /opt/uv/bin/pip install --quiet --require-hashes --requirement bootstrap.txt
COPY pyproject.toml uv.lock ./

# The sources that all components import
FROM build AS sources
COPY README.md LICENSE ./
COPY crds/src crds/src

# The part that all images share
FROM ${BASE_IMAGE} AS runtime
# Some bases come without the standard library's bytecode, and the root is read-only later. No
# program needs a set-user-id bit.
RUN python3 -m compileall -q -x '/(site-packages|dist-packages|lib2to3|test|tests)/' \
    "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
    && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
ENV HOME=/nonexistent \
    PATH=/opt/inferometer/bin:${PATH} \
    PYTHONPATH=/opt/inferometer/own \
    PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1
LABEL org.opencontainers.image.licenses="Apache-2.0"
USER 10001:10001

# The operator
FROM build AS operator-packages
RUN --mount=type=cache,target=/build-cache \
    --mount=type=secret,id=certificates,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/uv/bin/uv sync --quiet --locked --only-group image-operator \
    && rm /opt/inferometer/.lock

FROM sources AS operator-own
COPY operator/src operator/src
RUN --mount=type=cache,target=/build-cache \
    --mount=type=secret,id=certificates,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/uv/bin/uv pip install --quiet --no-deps --no-build-isolation --python /opt/uv --target /opt/own . \
    && rm -r /opt/own/bin /opt/own/.lock

FROM runtime AS operator
COPY --from=operator-packages /opt/inferometer /opt/inferometer
COPY --from=operator-own /opt/own /opt/inferometer/own
LABEL org.opencontainers.image.description="Runs the BenchmarkRuns of a Kubernetes cluster."
ENTRYPOINT ["python3", "-m", "inferometer_operator"]

# The load generator
FROM build AS loadgen-packages
RUN --mount=type=cache,target=/build-cache \
    --mount=type=secret,id=certificates,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/uv/bin/uv sync --quiet --locked --only-group image-loadgen \
    --no-install-package pbr --no-install-package setuptools \
    --no-install-package pytest --no-install-package pluggy --no-install-package iniconfig \
    --no-install-package huggingface-hub --no-install-package hf-xet --no-install-package fsspec \
    --no-install-package tqdm --no-install-package filelock --no-install-package httpx2 \
    --no-install-package httpcore2 --no-install-package anyio \
    && rm /opt/inferometer/.lock

FROM sources AS loadgen-own
COPY models/src models/src
COPY tasks/src tasks/src
COPY loadgen/src loadgen/src
RUN --mount=type=cache,target=/build-cache \
    --mount=type=secret,id=certificates,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/uv/bin/uv pip install --quiet --no-deps --no-build-isolation --python /opt/uv --target /opt/own . \
    && rm -r /opt/own/bin /opt/own/.lock

FROM runtime AS loadgen
COPY --from=loadgen-packages /opt/inferometer /opt/inferometer
COPY --from=loadgen-own /opt/own /opt/inferometer/own
LABEL org.opencontainers.image.description="Loads an inference server and judges the result."
ENTRYPOINT ["python3", "-m", "inferometer_loadgen"]

# The node agent
FROM build AS telemetry-packages
RUN --mount=type=cache,target=/build-cache \
    --mount=type=secret,id=certificates,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/uv/bin/uv sync --quiet --locked --only-group image-telemetry \
    && rm /opt/inferometer/.lock

FROM sources AS telemetry-own
COPY telemetry/src telemetry/src
RUN --mount=type=cache,target=/build-cache \
    --mount=type=secret,id=certificates,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/uv/bin/uv pip install --quiet --no-deps --no-build-isolation --python /opt/uv --target /opt/own . \
    && rm -r /opt/own/bin /opt/own/.lock

FROM runtime AS telemetry
COPY --from=telemetry-packages /opt/inferometer /opt/inferometer
COPY --from=telemetry-own /opt/own /opt/inferometer/own
LABEL org.opencontainers.image.description="Measures energy, utilisation and throttling of a node."
ENTRYPOINT ["python3", "-m", "inferometer_telemetry"]

# The results service
FROM build AS results-packages
RUN --mount=type=cache,target=/build-cache \
    --mount=type=secret,id=certificates,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/uv/bin/uv sync --quiet --locked --only-group image-results \
    --no-install-package pbr --no-install-package setuptools \
    && rm /opt/inferometer/.lock

FROM sources AS results-own
COPY analysis/src analysis/src
# Pages that the package holds as links
COPY docs/how-to/invalid.md docs/how-to/
COPY docs/reference/verdict.md docs/reference/
COPY results/src results/src
RUN --mount=type=cache,target=/build-cache \
    --mount=type=secret,id=certificates,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/uv/bin/uv pip install --quiet --no-deps --no-build-isolation --python /opt/uv --target /opt/own . \
    && rm -r /opt/own/bin /opt/own/.lock

FROM runtime AS results
COPY --from=results-packages /opt/inferometer /opt/inferometer
COPY --from=results-own /opt/own /opt/inferometer/own
LABEL org.opencontainers.image.description="Keeps and serves the results of a Kubernetes cluster."
ENTRYPOINT ["python3", "-m", "inferometer_results"]

# The server, with ONNX Runtime and OpenVINO, and the fetcher of models and inputs, for CPUs and for NVIDIA GPUs
FROM build AS serving-packages
RUN --mount=type=cache,target=/build-cache \
    --mount=type=secret,id=certificates,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/uv/bin/uv sync --quiet --locked --only-group image-serving-cpu \
    --no-install-package huggingface-hub --no-install-package hf-xet --no-install-package fsspec \
    --no-install-package tqdm --no-install-package filelock --no-install-package httpx2 \
    --no-install-package httpcore2 --no-install-package anyio --no-install-package h11 \
    --no-install-package idna --no-install-package truststore --no-install-package click \
    && rm -r /opt/inferometer/.lock /opt/inferometer/lib/python3.*/site-packages/onnx/backend/test

FROM build AS serving-gpu-packages
RUN --mount=type=cache,target=/build-cache \
    --mount=type=secret,id=certificates,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/uv/bin/uv sync --quiet --locked --only-group image-serving-gpu \
    --no-install-package huggingface-hub --no-install-package hf-xet --no-install-package fsspec \
    --no-install-package tqdm --no-install-package filelock --no-install-package httpx2 \
    --no-install-package httpcore2 --no-install-package anyio --no-install-package h11 \
    --no-install-package idna --no-install-package truststore --no-install-package click \
    && rm -r /opt/inferometer/.lock /opt/inferometer/lib/python3.*/site-packages/onnx/backend/test

FROM sources AS serving-own
COPY models/src models/src
COPY tasks/src tasks/src
COPY fetch/src fetch/src
COPY serving/src serving/src
RUN --mount=type=cache,target=/build-cache \
    --mount=type=secret,id=certificates,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/uv/bin/uv pip install --quiet --no-deps --no-build-isolation --python /opt/uv --target /opt/own . \
    && rm -r /opt/own/bin /opt/own/.lock

FROM runtime AS serving
COPY --from=serving-packages /opt/inferometer /opt/inferometer
COPY --from=serving-own /opt/own /opt/inferometer/own
LABEL org.opencontainers.image.description="Serves an ONNX model on CPUs."
ENTRYPOINT ["python3", "-m", "inferometer_serving"]

FROM runtime AS serving-gpu
COPY --from=serving-gpu-packages /opt/inferometer /opt/inferometer
COPY --from=serving-own /opt/own /opt/inferometer/own
LABEL org.opencontainers.image.description="Serves an ONNX model on NVIDIA GPUs."
ENTRYPOINT ["python3", "-m", "inferometer_serving"]
