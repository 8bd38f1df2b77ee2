# One command per intent. `make` alone lists them.

.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
UV := .venv/bin/uv
SYNC := $(UV) sync --quiet --locked --inexact --compile-bytecode --no-build-isolation --extra cpu --group dev
# Trust the certificates that this machine trusts: many sit behind a proxy of their own.
export UV_SYSTEM_CERTS := true
# Every process of the tests would otherwise compile all modules again.
export PYTHONDONTWRITEBYTECODE :=
BIN := .venv/bin
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/inferometer

.PHONY: help install demo demo-dashboards test verify verify-changed mutants check check-types check-texts check-tests generate bench bench-cluster clean images push kind-load sbom audit cluster-up cluster-down

help: ## Show this help
	@echo "Inferometer: measures how deep-learning models are served."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/bin/uv: bootstrap.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "Inferometer needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Name another: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement bootstrap.txt
	@touch $@

.venv/.installed: pyproject.toml uv.lock | .venv/bin/uv
	$(SYNC)
	@touch $@

install: .venv/.installed ## Install Inferometer and all its tools into .venv

# The example is meant to be measured: an INVALID verdict (3) is shown in full and is no fault.
demo: .venv/.installed ## Run the first example to its report (about a minute)
	$(BIN)/inferometer run examples/01-resnet50-cpu.yaml --output results/demo || [ $$? -eq 3 ]

# Ctrl-C is how it ends (130).
demo-dashboards: .venv/.installed ## Measure two runs and watch them in Prometheus and Grafana (Ctrl-C ends it)
	PYTHONPATH=tests:. $(BIN)/python -m grafana.demo || [ $$? -eq 130 ]

# Of the images: where they go, what they are called, what they are made of, which ones.
REGISTRY ?=
TAG ?=
BASE_IMAGE ?=
IMAGES ?=
BUILDER ?= auto
KIND_CLUSTER ?= inferometer
IMAGE_OPTIONS = --registry "$(REGISTRY)" --tag "$(TAG)" --builder $(BUILDER) $(IMAGES)

images: .venv/bin/uv ## Build the images: REGISTRY= TAG= BASE_IMAGE= (docs/how-to/images.md)
	$(BIN)/python -m images build --base-image "$(BASE_IMAGE)" $(IMAGE_OPTIONS)

push: .venv/bin/uv ## Push them to REGISTRY=
	$(BIN)/python -m images push $(IMAGE_OPTIONS)

kind-load: .venv/bin/uv ## Load them into a kind cluster
	$(BIN)/python -m images kind-load --kind-cluster $(KIND_CLUSTER) $(IMAGE_OPTIONS)

sbom: .venv/bin/uv ## List the packages of each image as CycloneDX in dist/sbom, from uv.lock
	$(BIN)/python -m images sbom $(IMAGES)

audit: .venv/bin/uv ## Look for known vulnerabilities in the packages of the images (needs the internet)
	$(BIN)/python -m images audit $(IMAGES)

# A local Kubernetes: by kind where Docker works, else on Linux as root by the tests' own harness.
NODES ?= 1
NAME ?= local
CLUSTER := PYTHONPATH=tests:. $(BIN)/python -m support.cluster

cluster-up: .venv/.installed ## Start a local Kubernetes with the images in it: NODES= NAME=
	@$(CLUSTER) up --nodes $(NODES) --name $(NAME)

cluster-down: .venv/.installed ## Remove it without a trace: NAME=
	@$(CLUSTER) down --name $(NAME)

generate: .venv/.installed ## Write what is generated: CRDs, schemas, reference pages, dashboards, rules
	$(BIN)/python -m docgen.runtime_lists
	$(BIN)/python -m docgen
	$(BIN)/python -m grafana

check: .venv/.installed ## Lint, types, import contracts, prose, subjects of commits, generated files fresh, tests collected
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check-types check-texts check-tests

# What mypy knows by the content of files serves any clone.
check-types:
	$(BIN)/mypy --cache-dir $(CACHE)/mypy

check-texts:
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/python -m docgen.prose
	$(BIN)/python -m docgen.commits
	$(BIN)/python -m docgen --check
	$(BIN)/python -m grafana --check

# tests/tiers.py says which tests make the gate, and which make each group of verify.
TIERS := PYTHONPATH=tests:. $(BIN)/python -m tiers

# Once, before each worker of the gate does so: pytest rewrites what it collects, and keeps it.
check-tests:
	@found=$$($(BIN)/pytest -q --collect-only $$($(TIERS))) || { echo "$$found" | tail -n 100; exit 1; }
VERIFY := PYTHONPATH=tests:. $(BIN)/python -m verify
GROUP ?=
OPTIONS ?=
BASE ?= main

test: check ## Pass the gate: every check, and every test that a busy machine cannot disturb
	@tests/install-tools
	@$(CLUSTER) build gate
	$(BIN)/pytest -q --numprocesses auto --dist loadscope --durations=25 $$($(TIERS))

verify: .venv/.installed ## Pass the rest, alone on the machine, repeating what has not passed: GROUP= OPTIONS=--again
	@tests/install-tools verify
	@$(CLUSTER) build verify
	@$(VERIFY) $(OPTIONS) $(GROUP)

verify-changed: .venv/.installed ## Pass the groups that the changes since BASE= call for
	@tests/install-tools verify
	@$(CLUSTER) build verify
	@$(VERIFY) --changed-since $(BASE) $(OPTIONS) $(GROUP)

mutants: .venv/.installed ## Put small faults in, one at a time, and list those that no test notices
	@PYTHONPATH=tests:. $(BIN)/python -m mutants $(OPTIONS)

bench: .venv/.installed ## Measure against peers and write docs/performance.md (about two and a half hours); CASE=NAME: one case
	@$(if $(filter operator-scale,$(CASE)),$(CLUSTER) build gate,bench/install-tools $(if $(filter results-%,$(CASE)),--mlflow))
	@$(SYNC) --extra openvino || echo "OpenVINO could not be installed: no case measures it."
	$(BIN)/python bench/run.py $(addprefix --case ,$(CASE))

bench-cluster: .venv/.installed ## Measure on a cluster of this machine and write docs/performance.md (fifteen minutes)
	@$(CLUSTER) build gate
	$(BIN)/python bench/run.py --case apply-to-first-query --case laptop-and-cluster

clean: ## Remove what was built and measured here
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
	find results -mindepth 1 -maxdepth 1 -not -name src -exec rm -rf {} +
