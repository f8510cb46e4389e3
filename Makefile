# The only door: every verb of the house. `make` alone lists them.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=
SEED ?= 1
N ?= 200

.DEFAULT_GOAL := help
.PHONY: help setup tools up down status check test simulate bench clean

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(STAMP): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 was not found as '$(PYTHON)'. Install it, or say where: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[controlplane,pipeline,demo,dev]'
	touch $@

setup: $(STAMP)  ## build .venv with everything the house needs

tools:  # clients and browser the tests drive; only root may install them
	@missing=""; command -v kcat >/dev/null || missing="$$missing kcat"; command -v chromium >/dev/null || missing="$$missing chromium"; \
	command -v java >/dev/null || missing="$$missing openjdk-17-jre-headless"; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing >/dev/null; \
	  else echo "The tests want these programs: apt install$$missing" >&2; exit 1; fi; fi

up: setup  ## start a living cluster (options: make up ARGS='--detach --json')
	$(BIN)/python manage.py up $(ARGS)

down: setup  ## stop it cleanly
	$(BIN)/python manage.py down $(ARGS)

status: setup  ## every process with its state and pid
	$(BIN)/python manage.py status $(ARGS)

check: setup  ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup tools  ## every test (pytest options in ARGS)
	$(BIN)/python -m pytest $(ARGS)

simulate: setup  ## seeded worlds: make simulate SEED=1 N=2000
	$(BIN)/python -m tests.simulation --seed $(SEED) --n $(N)

bench: setup  ## produce and consume with librdkafka; broker CPU per GB
	$(BIN)/python -m bench

clean:  ## remove what was built, not what was stored
	rm -rf $(VENV) build .mypy_cache .ruff_cache .import_linter_cache
