# MLServer with ONNX Runtime, for runs with `runtime: MLServer` (docs/how-to/mlserver.md).
#
#   docker build --file images/mlserver.Dockerfile images
ARG BASE_IMAGE=python:3.11-slim-bookworm
FROM ${BASE_IMAGE}
COPY mlserver.txt /tmp/requirements.txt
# Some bases have no pip of their own.
RUN --mount=type=secret,id=certificates,target=/etc/ssl/certs/ca-certificates.crt \
    python3 -m venv /opt/mlserver && PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    /opt/mlserver/bin/pip install --quiet --no-cache-dir --no-deps --only-binary :all: --require-hashes \
    --requirement /tmp/requirements.txt
ENV HOME=/nonexistent PATH=/opt/mlserver/bin:${PATH} PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
ENTRYPOINT ["mlserver"]
