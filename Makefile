# `make demo` and `make test` set up all they need in a clean clone. Variables: PYTHON, JAVA_HOME, SEED, SAMPLE, RELEASE.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
# Or every process that the tests start compiles the project, and pytest all tests, anew.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest -q
EXAMPLE := examples/captured-4.3
NOTEBOOKS := $(wildcard notebooks/*.ipynb)
# What needs neither a server nor a cluster nor containers nor a browser nor other people's clients and frameworks,
# nor much time.
HERE := not live and not cluster and not clients and not containers and not browser and not frameworks and not long
NEWEST := not (3.8 or 3.9 or 3.10 or 3.11 or 3.12 or 3.13 or 4.0 or 4.1 or 4.2)
# The oldest and the newest server play everything; those in between what differs most from release to release.
LIVE := -m "live and not long and not bundled"
LIVE_IN_BETWEEN := tests/amqp10 tests/differential tests/live/test_declarations.py
SEED ?= 1
SAMPLE ?= 25
RELEASE ?= 4.3
CASES ?= 100
MINUTES ?= 60

.PHONY: help
help:
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(READY): setup.cfg pyproject.toml tools/venv
	@tools/venv $(VENV)
	@touch $@

.PHONY: install
install: $(READY)  ## the virtual environment in .venv, with everything in it

.PHONY: java
java:
	@tools/java

# The replay alone needs no Java and less than the tests do.
DEMO_VENV := out/demo-venv
DEMO_READY := $(DEMO_VENV)/.ready
DEMO := replay $(EXAMPLE)/trace.log* --definitions $(EXAMPLE)/definitions.json --release 4.3 --out out/demo
$(DEMO_READY): setup.cfg pyproject.toml tools/venv
	@tools/venv $(DEMO_VENV) replay
	@touch $@

.PHONY: demo
demo: $(DEMO_READY)  ## replay a captured trace and write a report to out/demo
	$(DEMO_VENV)/bin/dlx $(DEMO)
	@echo "The report is in $(CURDIR)/out/demo:"; ls out/demo

.PHONY: demo-spark
demo-spark: install java  ## the same replay on Spark
	$(BIN)/dlx $(DEMO) --engine spark

.PHONY: test
test: install java lint docs test-fast test-slow test-frameworks test-browser test-spark test-cluster  ## every check there is
	tests/live/broker run make --no-print-directory test-live vectors-check
	make --no-print-directory test-container
	make --no-print-directory test-compose

.PHONY: check
check: lint docs  ## what to run while you work: lint, types, documents, and the quick tests that concern the newest release
	$(PYTEST) -n auto --dist worksteal -m 'not slow and not spark and $(HERE)' -k '$(NEWEST)'

.PHONY: lint
lint: install  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/mypy

.PHONY: docs
docs: install  ## the documents as a site in out/site, with a reference made from docstrings; a broken link fails
	$(BIN)/python -m mkdocs build --strict

.PHONY: format
format: install  ## mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format dlx simulator tests benchmarks examples tools docs/generate.py

.PHONY: test-fast
test-fast: install  ## no server, no Spark; a minute or so
	$(PYTEST) -n auto --dist worksteal -m 'not slow and not spark and $(HERE)'

.PHONY: test-slow
test-slow: install  ## no server, no Spark, but more than a second or two each
	$(PYTEST) -n auto --dist worksteal -m 'slow and not spark and $(HERE)'

.PHONY: test-frameworks
test-frameworks: install  ## other people's frameworks on the simulator, against what they left on RabbitMQ; fetches them
	@tools/frameworks
	$(PYTEST) -m 'frameworks and not live' tests/integration/frameworks tests/systems/activemq/test_stomp_clients.py

.PHONY: test-browser
test-browser: install  ## the pages in Debian's Chromium, which is installed where it is missing
	@tools/browser
	$(PYTEST) -m browser tests/browser

.PHONY: test-spark
test-spark: install java  ## on a local Spark
	$(PYTEST) -m 'spark and $(HERE)'

.PHONY: test-cluster
test-cluster: install java  ## on a Spark master and worker of its own
	$(PYTEST) -m cluster tests/cluster

.PHONY: test-notebooks
test-notebooks: install java  ## run every notebook from top to bottom
	$(if $(NOTEBOOKS),$(BIN)/python -m nbconvert --log-level WARN --to notebook --execute \
	  --output-dir out/notebooks $(NOTEBOOKS),@echo 'no notebooks')

.PHONY: test-live
test-live: install java  ## against real servers, started and stopped here; those of RabbitMQ side by side
	tests/live/broker each 4.3 3.8 4.0 3.10 bash -c 'case $$DLX_LIVE_SERVERS in \
	  4.3=*|3.8=*) $(PYTEST) $(LIVE) --ignore tests/systems ;; *) $(PYTEST) $(LIVE) $(LIVE_IN_BETWEEN) ;; esac'
	tests/live/broker run bash -c 'tests/live/broker plugins && $(PYTEST) -m bundled tests/differential'
	tests/systems/zaqar/server run $(PYTEST) -m live tests/systems

.PHONY: test-container
test-container: install  ## the harness on two releases and, in the same run, on a RabbitMQ in a container, whose image is made here (RELEASE=4.3)
	TESTCONTAINERS_RYUK_DISABLED=true tests/live/broker image $(RELEASE) \
	  $(PYTEST) tests/testing/test_same_file.py --dlx-broker 3.13 --dlx-broker $(RELEASE) \
	  --dlx-broker container:dlx-rabbitmq:$(RELEASE)

.PHONY: test-compose
test-compose: install  ## docker/compose.yaml on images that are made here, and a replay there; the image of docker/serve
	TESTCONTAINERS_RYUK_DISABLED=true tests/live/broker image 4.3 tests/containers/with-image $(PYTEST) tests/containers

.PHONY: test-long
test-long: install java  ## what CI leaves out: more releases, more examples, larger limits, all live tests on each server
	$(PYTEST) -n auto --dist worksteal -m 'long and not live'
	tests/live/broker each $(PYTEST) -m 'live and not bundled' --ignore tests/systems

.PHONY: fuzz
fuzz: install  ## random scripts on real servers and the simulator (CASES=100 on each, SEED, MINUTES=60)
	tests/live/broker run $(BIN)/python -m tests.differential.fuzz --cases $(CASES) --seed $(SEED) --minutes $(MINUTES)

.PHONY: mutants
mutants: install  ## put deliberate faults into copies of the tree, and see that the tests catch them
	$(BIN)/python -m tests.mutants

.PHONY: enumerate
enumerate: install  ## every small topology and what becomes of a message in it
	$(BIN)/python -m tests.enumeration

.PHONY: test-clients
test-clients: install java  ## the suites of other people's clients, against the simulator; fetches them (RELEASE=4.3)
	tests/clients/run --release $(RELEASE)

.PHONY: vectors-check
vectors-check: install  ## record SAMPLE of the vectors afresh on real servers and compare; chosen by SEED
	tests/live/broker run bash -c '$(BIN)/python -m tests.vectors.record --check --sample $(SAMPLE) --seed $(SEED) \
	  $$(tr , "\n" <<<"$$DLX_LIVE_SERVERS" | sed "s/^/--release /; s/|/,/")'

.PHONY: clean
clean:  ## remove what the targets above made
	rm -rf $(VENV) out build *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
