# Targets for contributors; `make help` lists them. The first run creates .venv from the pinned lock file.
VENV := .venv
BIN := $(VENV)/bin
# A Python built without optimizations, as pyenv does, needs a fifth more time; distributions' have them.
OPTIMIZED := import sys, sysconfig; sys.exit("--enable-optimizations" not in str(sysconfig.get_config_var("CONFIG_ARGS")))
USABLE := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell python3 -c '$(OPTIMIZED)' 2>/dev/null && echo python3 || \
  { /usr/bin/python3 -c '$(USABLE)' 2>/dev/null && echo /usr/bin/python3; } || echo python3)
# Made from nothing where it does not work: over another Python's, venv leaves a mixture.
MAKE_VENV = $(BIN)/python -m pip --version 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
READY := $(VENV)/.ready
KUBERNETES ?= 1.36
OUT ?= build/release
SEED ?= $(shell date +%N)
WORKERS ?= 1 2 4
# Where it is set, as in many containers, each process of a test compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo translate help test test-random bridge-test check e2e play bench bench-scheduler docs site release image scheduler-image image-lock lock clean

demo: $(READY)  ## Translate the example manifests and place their pods on a sample inventory; needs no cluster
	$(BIN)/python -m cli.demo

translate: $(READY)  ## Report what becomes of your manifests; needs no cluster; FILE=file or folder
	@$(BIN)/drawbridge translate -f "$(or $(FILE),$(error name your manifest: make translate FILE=my.yaml))" -o report

help:  ## List the targets
	@sed -nE "s/^([a-z0-9-]+):.*## (.*)/  \1\t\2/p" $(MAKEFILE_LIST) | expand -t 16

test: $(READY)  ## Run all tests
	$(BIN)/python -m pytest -n auto --dist loadfile

test-random: $(READY)  ## Run all tests in random order; SEED=<number> WORKERS="1 2 4" repeats an order
	for workers in $(WORKERS); do \
	  $(BIN)/python -m pytest -n $$workers --dist loadgroup --order $(SEED) || exit; \
	done

bridge-test: $(READY)  ## Check and test the scheduler plugin; needs Go
	$(BIN)/python -m e2e.bridge.build test

check: $(READY)  ## Run the linters, the type checker and the repository checks; verify the generated docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports
	$(BIN)/python -m tools.house
	$(BIN)/python -m tools.parts
	$(BIN)/python -m tools.named_codes
	$(BIN)/python -m tools.record_states
	$(BIN)/python -m tools.version
	$(BIN)/python -m tools.docs --check

e2e: $(READY)  ## Run scenarios on a real control plane; needs Go; SUITE=smoke|full|compat|chaos|node|drivers|queues
	$(BIN)/python -m e2e

play: $(READY)  ## Start a cluster with Drawbridge to play with; needs Go; PLAY='--nodes real --bridge'
	$(BIN)/python -m e2e play $(PLAY)

bench: $(READY)  ## Run the benchmarks and print ratios to the reference implementations; BENCH=--brief|NAME
	$(BIN)/python -m bench $(BENCH)

bench-scheduler: $(READY)  ## Compare with the stock scheduler in upstream's scheduler_perf; needs Go; BENCH='--rounds 5 --all'
	$(BIN)/python -m e2e.upstream.scheduler_perf $(BENCH)

docs: $(READY)  ## Write the generated pages of docs/ and the Helm chart
	$(BIN)/python -m tools.docs

site: $(READY)  ## Build the documentation site and follow its links; diagrams need npm
	$(BIN)/python -m tools.site

release: $(READY)  ## Build all artifacts of a release, unsigned; needs Go and apt of Debian 12; OUT=folder REGISTRY=prefix
	$(BIN)/python -m tools.release build $(OUT) $(if $(REGISTRY),--registry $(REGISTRY))

image: $(READY)  ## Build the container image as an OCI archive; needs apt of Debian 12, no container engine
	$(BIN)/python -m tools.image build

scheduler-image: $(READY)  ## Build the image of the kube-scheduler with the plugin; needs Go; KUBERNETES=1.37|1.36|1.35|1.34
	$(BIN)/python -m tools.image scheduler --kubernetes $(KUBERNETES)

image-lock: $(READY)  ## Update debian.lock to the packages that Debian offers now
	$(BIN)/python -m tools.image lock

lock:  ## Update requirements.lock, requirements-runtime.lock and requirements-site.lock
	$(MAKE_VENV)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --group dev --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --constraint requirements.lock --custom-compile-command "make lock" \
	  --output-file requirements-runtime.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --group site --custom-compile-command "make lock" --output-file requirements-site.lock

clean:  ## Delete .venv and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache

$(READY): requirements.lock pyproject.toml
	$(MAKE_VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(READY)
