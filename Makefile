# `make demo` and `make test` install everything they need into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet
BROWSER := chromium nodejs fonts-dejavu-core
COMPILER := gcc g++ libc6-dev

export OMP_NUM_THREADS ?= 1

.PHONY: demo test lint docs soak study suite results clean

demo: $(VENV)/.demo-installed
	rm -rf runs/demo
	$(BIN)/rsa2c train Pendulum-v1 --algorithm rsa2c-kme --seed 0 --total-timesteps 100000 --out runs/demo

test: lint $(VENV)/.browser $(VENV)/.compiler
	$(BIN)/python -m pytest -n auto --maxprocesses 4 -m "not slow"

lint: $(VENV)/.test-installed
	$(BIN)/ruff check .
	$(BIN)/mypy

# The site, in site/; `make test` builds it too.
docs: $(VENV)/.test-installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

soak: $(VENV)/.test-installed
	$(BIN)/python -m pytest -m slow
	$(BIN)/python benchmarks/checks.py
	$(BIN)/python benchmarks/kills.py
	$(BIN)/python benchmarks/messages.py
	$(BIN)/python benchmarks/fuzz.py --minutes 10
	$(BIN)/python benchmarks/determinism.py
	$(BIN)/python benchmarks/soak.py

# Compares the paper's tables and figures with ours. Takes hours; run it again to continue.
study: $(VENV)/.test-installed
	for target in pendulum lqr walker ant; do $(BIN)/rsa2c reproduce $$target || exit 1; done
	$(MAKE) results

# Trains every environment of results/suite.md with five seeds. Takes hours; run it again to continue.
suite: $(VENV)/.test-installed
	$(BIN)/python benchmarks/suite.py --jobs 2

results: $(VENV)/.test-installed
	$(BIN)/python benchmarks/results_page.py
	$(BIN)/python benchmarks/readme_table.py

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-installed: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	touch $@

# Install a pinned torch first, so that no package below pulls in another build of it.
$(VENV)/.test-installed: pyproject.toml | $(BIN)/python
	$(PIP) torch==2.13.0
	$(PIP) -e '.[envs,fast,explain,baselines,track,export,cluster,watch,tune,docs,dev]'
	touch $@ $(VENV)/.demo-installed

# The report's tests need Chromium and node. If these cannot be installed, the tests are skipped with a message.
$(VENV)/.browser: | $(BIN)/python
	@command -v chromium >/dev/null && command -v node >/dev/null \
	  || { apt-get update -qq && apt-get install -y -qq $(BROWSER); } >/dev/null 2>&1 \
	  || { sudo -n apt-get update -qq && sudo -n apt-get install -y -qq $(BROWSER); } >/dev/null 2>&1 \
	  || echo "Chromium or node is missing and could not be installed: the report's browser tests will be skipped." \
	     "Install them with: apt-get install $(BROWSER)"
	@command -v chromium >/dev/null && command -v node >/dev/null && touch $@ || true

# The exported C is compiled and tried. If there is no gcc and it cannot be installed, those tests are skipped.
$(VENV)/.compiler: | $(BIN)/python
	@command -v gcc >/dev/null \
	  || { apt-get update -qq && apt-get install -y -qq $(COMPILER); } >/dev/null 2>&1 \
	  || { sudo -n apt-get update -qq && sudo -n apt-get install -y -qq $(COMPILER); } >/dev/null 2>&1 \
	  || echo "gcc is missing and could not be installed: the tests of the exported C will be skipped." \
	     "Install it with: apt-get install $(COMPILER)"
	@command -v gcc >/dev/null && touch $@ || true
