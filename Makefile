# `make demo` and `make test` set up everything they need in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet

export OMP_NUM_THREADS ?= 1

.PHONY: demo test lint soak clean

demo: $(VENV)/.demo-installed
	rm -rf runs/demo
	$(BIN)/rsa2c train Pendulum-v1 --algorithm rsa2c-kme --seed 0 --total-timesteps 100000 --out runs/demo
	$(BIN)/rsa2c evaluate runs/demo/Pendulum-v1__rsa2c-kme__default__n0__s0

test: lint
	$(BIN)/python -m pytest -n auto --maxprocesses 4 -m "not slow"

lint: $(VENV)/.test-installed
	$(BIN)/ruff check .
	$(BIN)/mypy

soak: $(VENV)/.test-installed
	$(BIN)/python -m pytest -m slow

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-installed: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	touch $@

# torch first and pinned, so that nothing below pulls another build of it.
$(VENV)/.test-installed: pyproject.toml | $(BIN)/python
	$(PIP) torch==2.13.0
	$(PIP) -e '.[envs,fast,explain,baselines,track,dev]'
	touch $@ $(VENV)/.demo-installed
