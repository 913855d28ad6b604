# `make` alone lists what there is. PYTHON chooses the Python that .venv is made with,
# ARGS is passed on: make serve ARGS="--port 9000".

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
# Tests that need no models, no whole server and no browser.
QUICK := not models and not server and not browser

# Models come from packages of the Python index, never from a hub.
export HF_HUB_OFFLINE ?= 1
# OpenMP threads that spin at barriers starve each other on few cores.
export OMP_WAIT_POLICY ?= PASSIVE

.DEFAULT_GOAL := help
.PHONY: help setup runtime models serve demo doctor test tests lint bench clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' Makefile | sed -E 's/^([a-z]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

setup: ## Make or refresh .venv with everything, tools included
	@$(PYTHON) deploy/setup_env.py --dev

runtime:
	@$(PYTHON) deploy/setup_env.py

models: runtime ## Fetch the embedded models (about 340 MB, once)
	$(BIN)/antiphon models fetch

serve: runtime ## Set up what is needed and start the server
	$(BIN)/antiphon serve $(ARGS)

demo: runtime ## Hold a spoken conversation with the server
	$(BIN)/antiphon demo $(ARGS)

doctor: runtime ## Say what is missing on this machine, and how to mend it
	$(BIN)/antiphon doctor $(ARGS)

test: setup ## All checks and all tests
	@$(BIN)/python -m tests.conformance.environments & clients=$$!; \
	trap 'kill $$clients 2>/dev/null' EXIT; \
	$(MAKE) --no-print-directory lint && $(BIN)/antiphon models fetch \
	&& wait $$clients && $(MAKE) --no-print-directory tests

# By default first those that need no real time and no models, on both cores.
tests:
	$(if $(ARGS),$(BIN)/pytest $(ARGS),$(BIN)/pytest -n 2 -m "$(QUICK)" && $(BIN)/pytest -m "not ($(QUICK))")

lint: setup ## Style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	@# Each takes a minute of one core: both at once.
	@$(BIN)/mypy & types=$$!; \
	$(BIN)/pyright --pythonpath $(BIN)/python; status=$$?; wait $$types && exit $$status

bench: setup ## Measure: short forms of all benchmarks, or ARGS="sessions --full"
	$(BIN)/antiphon models fetch
	$(BIN)/python -m benchmarks $(ARGS)

clean: ## Remove .venv, caches and outputs; models stay
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage dist out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
