# One verb per chore. `make` alone lists them. Everything made here lives under var/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := var/venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
JARS := var/jars/.fetched
BACKENDS := var/jars/backends/.fetched
COLLECTED := var/cache/.collected

# Tools that keep state are told to keep it here.
export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/var/cache/hypothesis
export DAGSTER_DISABLE_TELEMETRY := yes
export DO_NOT_TRACK := 1
export NO_MKDOCS_2_WARNING := 1
# Who starts hundreds of processes, as the tests do, would have each of them compile the project anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: java $(INSTALLED) $(JARS) ## virtual environment, pinned packages and jars under var/; S3=1 for Spark SQL on S3, too
	@$(if $(S3),$(BIN)/python -m pipelines.landing.spark.jars var/jars s3)
	@$(BIN)/python -m pipelines.landing.spark.record

.PHONY: demo
demo: setup ## logs through the whole path to a printed proof; LOGS=file FORMAT= lands yours, BREAK=1 must end red
	@$(BIN)/sls-lake demo $(if $(LOGS),--logs '$(LOGS)') $(if $(FORMAT),--format '$(FORMAT)') $(if $(BREAK),--break-one-file)

.PHONY: dev
dev: setup ## emulator, steady producers and the Dagster page with schedules and sensors on, until Ctrl-C; LOGSTORE=a,b, SPARK=cold, PORT= UI_PORT=
	@$(BIN)/sls-lake dev $(if $(PORT),--port '$(PORT)') $(if $(UI_PORT),--ui-port '$(UI_PORT)') $(if $(LOGSTORE),--logstore '$(LOGSTORE)') $(if $(filter cold,$(SPARK)),--no-spark-server)

LIVE := tests/integration/live tests/contract/live tests/browser
WORKERS := -n 3 --dist loadfile --no-loadscope-reorder

# Three workers on two cores: a test waits a third of its time for servers and daemons.
.PHONY: test
test: ## check, then every test that needs no daemon, browser, server of others or clock
	@$(MAKE) --jobs=2 setup check $(BACKENDS) $(COLLECTED)
	@$(BIN)/python -m pytest $(WORKERS) $(addprefix --ignore=,$(LIVE))

.PHONY: test-live
test-live: setup $(BACKENDS) ## the others: Dagster's daemon and page, demo, dev, tutorial, dbt, databases, Spark Connect, chaos
	@$(BIN)/python -m pytest $(WORKERS) $(LIVE)

.PHONY: check types style
check: types style ## style, types, import layers and the links of the pages; no test is run

# The longest of all, the first time, and on one core: so it has a target of its own.
types: $(INSTALLED)
	@$(BIN)/mypy

style: $(INSTALLED)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --cache-dir var/cache/import-linter
	@$(BIN)/sls-lake check
	@$(BIN)/mkdocs build --strict --quiet

.PHONY: docs
docs: $(INSTALLED) ## the pages as a site that can be searched, in var/site; `make check` builds it, too
	@$(BIN)/mkdocs build --strict --quiet
	@echo "open var/site/index.html"

.PHONY: bench
bench: setup ## raw MB per CPU second of a landing, beside the limit of one core; a cold run, beside the vendor's consumer, too; a run in Dagster; leases; growth; RECORD=1 keeps the figures; LANE=profile|scale|ratio|... one alone
ifdef LANE
	@$(BIN)/python -m bench.bench_$(LANE) $(if $(RECORD),--record)
else
	@$(BIN)/python -m bench $(if $(RECORD),--record)
	@$(BIN)/python -m bench.bench_cold $(if $(RECORD),--record)
	@$(BIN)/python -m bench.bench_ratio $(if $(RECORD),--record)
	@$(BIN)/python -m bench.bench_dagster $(if $(RECORD),--record)
	@$(BIN)/python -m bench.bench_leases
	@$(BIN)/python -m bench.bench_scale $(if $(RECORD),--record)
	@$(BIN)/python -m bench.history
endif

.PHONY: conformance
conformance: setup ## seven SDKs of the vendor and its API model against the emulator, as a table; STRICT=1 forbids skips, DRAW=1 writes the model's differences
	@$(BIN)/python -m conformance $(if $(STRICT),--strict) $(if $(DRAW),--draw)

# What is not given here comes from the environment: keys, and a catalog (PYICEBERG_CATALOG__LAKE__...).
.PHONY: real
real: setup ## all of it tried on an account of yours, as a table to send back, and removed again; ENDPOINT= CREDENTIALS= WAREHOUSE= ENDING= REGION= PROXY= YES=1, REMOVE=PROJECT
	@$(BIN)/python -m real --endpoint '$(ENDPOINT)' $(if $(CREDENTIALS),--credentials '$(CREDENTIALS)') $(if $(WAREHOUSE),--warehouse '$(WAREHOUSE)') $(if $(ENDING),--ending '$(ENDING)') $(if $(REGION),--region '$(REGION)') $(if $(PROXY),--proxy '$(PROXY)') $(if $(YES),--yes) $(if $(REMOVE),--remove '$(REMOVE)')

.PHONY: simulate
simulate: $(INSTALLED) ## random schedules of the landing protocol, then small worlds explored to their end; N=20000 SEED=0
	@$(BIN)/python -m tests.simulation $(or $(N),20000) --first-seed $(or $(SEED),0)

.PHONY: chaos
chaos: setup ## workers killed and paused beside a faulty service, then every row counted; MINUTES=1 SEED= LANE=spark|cluster|dagster
	@$(BIN)/python -m chaos --minutes $(or $(MINUTES),1) $(if $(LANE),--lane $(LANE)) $(if $(SEED),--seed $(SEED))

.PHONY: fuzz
fuzz: setup ## hostile values, LogGroups, answers, sequences of verbs and contracts that change, each against an answer worked out apart; MINUTES=4 SEED= LANE=
	@$(BIN)/python -m fuzz --minutes $(or $(MINUTES),4) $(if $(LANE),--lane $(LANE)) $(if $(SEED),--seed $(SEED))

.PHONY: clean
clean: ## remove what the other verbs made; landed data and all else that is in var stays, and is named
	@rm -rf $(VENV) var/jars var/cache var/site var/demo var/.demo.lock var/dev var/.dev.lock var/bench var/conformance var/chaos/run var/fuzz/run
	@rm -rf var/dbt var/spark var/spark-server var/spark.log build sls_lake.egg-info .hypothesis
	@find . -path ./var -prune -o -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
	@rmdir var/chaos var/fuzz var 2>/dev/null || true
	@if [ -e var ]; then echo "kept in var, remove it yourself if you mean it: $$(ls -A var | tr '\n' ' ')"; fi

# --- behind `setup` ----------------------------------------------------------------------------

# The packages are installed again when what they are made from changes. An environment made by
# hand is taken as it is. PYTHON=... names the interpreter.
$(INSTALLED): pyproject.toml constraints.txt .ci/install
	@python=$$(sh .ci/find-python $(PYTHON)); \
	if [ ! -x $(BIN)/python ]; then echo "making $(VENV) with $$python"; "$$python" -m venv $(VENV); fi
	@echo "installing the pinned packages into $(VENV), 1.5 GB (a minute or two the first time)"
	@.ci/install $(BIN)
	@touch $@

$(JARS): pipelines/landing/spark/jars.py | $(INSTALLED)
	@$(BIN)/python -m pipelines.landing.spark.jars var/jars
	@touch $@

# What the tests' own Iceberg REST server is made of.
$(BACKENDS): tests/backends/jars.py pipelines/landing/spark/jars.py | $(INSTALLED)
	@$(BIN)/python -m tests.backends.jars $(@D)
	@touch $@

# Each worker of pytest loads all tests. Compiled once before, they are not compiled by all workers at once.
$(COLLECTED): $(shell find tests -name '*.py') | $(INSTALLED)
	@mkdir -p $(@D)
	@$(BIN)/python -m pytest --collect-only -qq > $@.log 2>&1 || { cat $@.log; exit 1; }
	@touch $@

.PHONY: java
java:
	@sh .ci/find-java
