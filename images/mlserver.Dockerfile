# MLServer with ONNX Runtime, for runs with `runtime: MLServer` (docs/how-to/mlserver.md).
ARG BASE_IMAGE=python:3.11-slim-bookworm
FROM ${BASE_IMAGE}
COPY images/mlserver.txt /tmp/requirements.txt
RUN --mount=type=secret,id=certificates,target=/etc/ssl/certs/ca-certificates.crt \
    python3 -m pip install --quiet --no-cache-dir --no-deps --only-binary :all: --requirement /tmp/requirements.txt
ENV HOME=/nonexistent PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
ENTRYPOINT ["mlserver"]
