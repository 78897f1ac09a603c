# Tools come from .venv if it is there (`make .venv` makes it), else from PATH.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
SHELL := /bin/bash

.DEFAULT_GOAL := help
.PHONY: help .venv check lint types docs docs-tools test slow proofs reliability sabotage mutants live-brokers spark-chaos triage-demo soak spark-matrix redis-matrix server-matrix python-matrix stranger bench releasable wheel format constraints clean tools

help: ## what there is
	@awk -F ':.*## ' '/^[a-z.-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

.venv: .venv/.installed ## a virtual environment with all tools
.venv/.installed: pyproject.toml constraints.txt
	@.ci/run environment

slow proofs reliability sabotage mutants live-brokers spark-chaos triage-demo soak spark-matrix redis-matrix server-matrix python-matrix stranger bench: tools
tools: # where there are none, as in a clean clone, .venv is made
	@python3 -c 'import psutil, pytest, redis' 2>/dev/null || $(MAKE) .venv

check: ## all that CI runs
	@.ci/run lint types docs wheel tests

lint: ## ruff, import-linter, luacheck on the joined Lua, the blocking colour as it is made
	@.ci/run lint

types: ## mypy and pyright
	@.ci/run types

docs: ## the site, in build/site; a warning or a dead link fails
	@python3 -c 'import mkdocstrings_handlers.python, zensical' 2>/dev/null || $(MAKE) docs-tools
	@.ci/run docs

docs-tools:
	@[ -d .venv ] || python3 -m venv .venv
	PIP_CONSTRAINT="$(CURDIR)/constraints.txt" .venv/bin/pip install -q --disable-pip-version-check -e '.[docs]'

test: ## the tests; for some of them: pytest tests/policy -k jitter
	@.ci/run tests

slow: ## what `pytest` leaves out: the long tests, the other variants of each test, many examples of what is drawn
	pytest -m other_variant -n auto
	pytest -m slow --timeout 0
	pytest --hypothesis-profile many -n auto tests/policy tests/test_filters.py tests/test_schedule_rules.py tests/behaviour/sessions/test_session_faults.py

proofs: ## the proofs, one after the other; what each takes and shows: docs/proofs.md
	python3 -m tests.proofs all

reliability: ## what is promised under faults, shown: a table
	python3 -m tests.proofs reliability

sabotage: ## does each row of `make reliability` find the bugs that it is for?
	python3 -m tests.proofs sabotage

mutants: ## do the tests see faults in the Lua?
	python3 -m tests.proofs mutants

live-brokers: ## ActiveMQ Classic, Artemis, NATS Streaming and JetStream beside us: the same scenarios, tables
	python3 -m tests.proofs live_brokers

spark-chaos: ## kills drivers, executors, writers and Redis under Spark
	python3 -m tests.proofs spark_chaos

triage-demo: ## from an outage to its redriven letters, on the command line and in a browser
	python3 -m tests.proofs triage

soak: ## `make reliability` for hours
	python3 -m tests.proofs reliability --scale soak

spark-matrix: ## the tests of Spark on the oldest and the newest versions that are promised
	python3 -m tests.spark.matrix

redis-matrix: ## the tests of connections on the oldest and the newest versions of redis-py that are promised
	python3 -m tests.connections.versions

server-matrix: ## what talks to a server on Redis 6.2, on the Redis of the PATH and on the embedded Valkey
	python3 -m tests.servers.matrix

stranger: ## README's two lines, in a clone, on a PATH without servers, Java, a browser and linters
	python3 -m tests.stranger

python-matrix: ## wheel and sdist on each Python that is promised and here: installed, used, tested; some minutes each
	python3 -m tests.pythons

bench: ## the benchmarks, after the tests of their programs
	pytest -q tests/benchmarks
	python3 -m tests.benchmarks

releasable: ## are the figures of docs/performance.json those of this commit?
	python3 -m tests.release

wheel: ## build sdist and wheel, install and use them elsewhere
	@.ci/run wheel

format: ## let the tools mend what they can
	ruff check --fix .
	ruff format .
	python3 -m tests.colours_twin --write

constraints: ## new pins: the newest versions that pyproject.toml allows (on Linux with Python 3.11 or 3.12)
	@fresh=$$(mktemp -d) && trap "rm -rf $$fresh" EXIT && python3 -m venv $$fresh \
	&& $$fresh/bin/pip install -q -e '.[all]' 'pyright[nodejs]' \
	&& { grep '^#' constraints.txt; $$fresh/bin/pip list --format=freeze --disable-pip-version-check \
	    --exclude-editable --exclude pip --exclude setuptools; } > $$fresh/pins \
	&& mv $$fresh/pins constraints.txt

clean: ## remove what tools left behind
	rm -rf build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
