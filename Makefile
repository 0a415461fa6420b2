# Everything a developer or a user does with a clone. `make` alone prints this list.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
UV := .tools/bin/uv
READY := $(VENV)/.ready
CODE := lakehouse jobs dags quality infra tests
BENCHMARKS := cluster ingest ingest_batches ingest_steps remembered revisions small_batch query_batch conditions commits control maintenance fold quality start engine rollup late_join multiway_join join_aggregate scheduling sources web
FAST := not spark and not airflow and not slow and not long
# Where memory has two gigabytes for files that need not last, tests wait for no disk; they take a third of that.
IN_MEMORY := df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 2000000 { print "/dev/shm" }'
# Each process of the whole suite starts a Spark of its own, so two; tests/conftest.py says what stays in one of them.
TOGETHER := --dist loadscope --no-loadscope-reorder

# Without compiled modules each of the suite's many processes compiles them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## Install everything into .venv and .tools: packages, this project, Spark's jars

$(READY): requirements.lock requirements-uv.lock pyproject.toml infra/setup.sh lakehouse/spark/jars.lock
	@infra/setup.sh
	@touch $(READY)

.PHONY: demo
demo: setup ## Set up, then simulate two streams, run the real DAGs and ask a few questions
	@infra/demo.sh

.PHONY: demo-live
demo-live: setup ## The same with a real stream: this machine's own sensors
	@infra/demo.sh --live

.PHONY: demo-cluster
demo-cluster: setup ## The tour of make demo with Spark on a master and two workers, tables on S3, leases in a Postgres, on this machine
	@rm -rf demo-cluster
	@$(BIN)/python -m lakehouse.spark.jars --s3 | tail -n 1
	@$(BIN)/python -m tests.storage.control.postgres $(BIN)/python -m tests.support.stores.s3 \
		$(BIN)/python -m infra.loopback_cluster --workers 2 --folder demo-cluster -- infra/demo.sh --cluster

.PHONY: test
test: setup ## Run the test suite; how long each test took is in build/tests.xml
	@TMPDIR=$${TMPDIR:-$$($(IN_MEMORY) || true)} $(BIN)/python -m pytest -m "not long" \
		-o tmp_path_retention_policy=failed -n 2 $(TOGETHER) --junitxml=build/tests.xml

.PHONY: test-fast
test-fast: setup ## Run the tests that need no JVM, no Airflow and no long wait
	@TMPDIR=$${TMPDIR:-$$($(IN_MEMORY) || true)} $(BIN)/python -m pytest -m "$(FAST)" --few-examples \
		-o tmp_path_retention_policy=failed -n logical $(TOGETHER)

.PHONY: test-long
test-long: setup ## Run what the suite tests on a tenth, at its full size
	@$(BIN)/python -m pytest -m long

.PHONY: faults
faults: setup ## Put faults into real jobs, at every step; writes tests/faults/results. An hour and a half
	@$(BIN)/python -m tests.faults

.PHONY: kubernetes
kubernetes: setup ## Lint and render the Helm chart, hold it to Kubernetes' schemas; builds helm once, which needs Go
	@infra/kubernetes/check.sh

.PHONY: lint
lint: setup ## Check style and formatting
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)

.PHONY: format
format: setup ## Mend what the linter can mend by itself
	@$(BIN)/ruff check --fix $(CODE)
	@$(BIN)/ruff format $(CODE)

.PHONY: types
types: setup ## Check types, strictly
	@$(BIN)/mypy

.PHONY: docs
docs: setup ## Build docs/ as a site in build/site, and check every link
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements-docs.lock
	@$(BIN)/python -m pytest --quiet tests/test_documents.py
	@$(BIN)/mkdocs build --strict

.PHONY: bench
bench: setup ## Run every benchmark in full; fetches the peers they compare with
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements-bench.lock
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m tests.benchmarks.$$name; done

.PHONY: bench-quick
bench-quick: setup ## Run every benchmark with small sizes; figures as JSON, a line for each part
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m tests.benchmarks.$$name --quick --json; done

.PHONY: lock
lock: $(UV) ## Pin every package again in the files requirements*.lock, with hashes
	@$(UV) pip compile pyproject.toml --extra dev --universal --generate-hashes --no-header \
		--python-version 3.11 --upgrade --quiet -o requirements.lock
	@$(UV) pip compile --group pyproject.toml:bench -c requirements.lock --universal --generate-hashes --no-header \
		--python-version 3.11 --upgrade --quiet -o requirements-bench.lock
	@echo uv | $(UV) pip compile - --universal --generate-hashes --no-header --no-annotate \
		--python-version 3.11 --upgrade --quiet -o requirements-uv.lock
	@$(UV) pip compile --group pyproject.toml:docs -c requirements.lock --universal --generate-hashes --no-header \
		--python-version 3.11 --upgrade --quiet -o requirements-docs.lock

$(UV):
	@infra/setup.sh uv

.PHONY: ci
ci: ## Do what the build server does
	@.ci/run

.PHONY: clean
clean: ## Remove what runs and tools left, and the installed environment
	rm -rf $(VENV) .tools build dist *.egg-info var demo demo-cluster .mypy_cache .pytest_cache .ruff_cache .hypothesis \
		spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
