# Everything a contributor runs. The first call of any target creates .venv from the hash-pinned lock.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check e2e bench docs lock clean

demo: $(READY)  ## the main job on the embedded sample inventory, no cluster needed
	$(BIN)/python -m cli.demo

test: $(READY)  ## the whole test suite
	$(BIN)/python -m pytest -n auto --dist loadfile

check: $(READY)  ## lint, types, import contracts, house rules, generated docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports
	$(BIN)/python -m tools.house
	$(BIN)/python -m tools.version
	$(BIN)/python -m tools.docs --check

e2e: $(READY)  ## scenarios on a real control plane, built with Go; SUITE=smoke|full|compat|chaos
	$(BIN)/python -m e2e

bench: $(READY)  ## figures side by side, as ratios
	$(BIN)/python -m bench

docs: $(READY)  ## writes the generated parts of docs/
	$(BIN)/python -m tools.docs

lock:  ## renews requirements.lock: hashes, no addresses
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --group dev --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(READY)
