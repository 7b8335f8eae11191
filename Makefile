PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
CONFIG := python_plugin/pyproject.toml
# Folders of Python, and of SQL, that exist here.
PY := python_plugin/src $(wildcard scripts) benchmarks tests
SQL := $(wildcard macros models) $(wildcard tests/projects)
PROFILE := --project-dir . --profiles-dir .
# Two processes, each with a Spark of its own, which it starts once. Files in their order: those without Spark, many quick tests each, come last, so
# that neither process waits long for the other one's last file.
WORKERS := --numprocesses 2 --dist loadfile --no-loadscope-reorder
# Tests that start a cluster have a target of their own.
HERE := --ignore tests/cluster
# Other versions of Spark, each in a folder that Python looks into before .venv; their tests, and how many random cases.
VERSIONS ?= $(shell sed -n 's/^pyspark==\([0-9]*[.][0-9]*\)[.].*/\1/p' spark-versions.txt)
OF_VERSIONS := $(addprefix tests/spark/,test_spark_versions.py test_bucketed_table.py test_incremental.py test_incremental_differential.py test_microbatch.py \
  test_organized_table.py test_organized_ranges.py test_organized_incremental.py test_organized_merges.py test_file_replacement.py test_file_tests.py test_generic_tests.py test_sealed_generic_tests.py test_crashes.py test_swap_errors.py test_table_show.py read write evolution/test_alter_buckets.py) tests/fuzz
# A broken link or anchor is an error. The variable silences an advertisement of the theme.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
# The session extension, where profiles.yml looks for it, and where its jars are kept.
EXTENSION := .venv/spark-bucketing-extension.jar
# The jars that a wheel brings.
JARS := python_plugin/src/spark_bucketing/extension/jars
export SPARK_BUCKETING_CACHE := $(CURDIR)/.venv/spark-bucketing

.DEFAULT_GOAL := help
.PHONY: help setup machine demo evolution corrections test test-long test-dbt test-versions test-cross-version cluster-test fuzz bench bench-tpch bench-advise bench-planning bench-files bench-ranges bench-merges bench-lint lint format docs dist clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with dbt, spark-bucketing and the development tools, at locked versions

$(STAMP): constraints.txt $(CONFIG) | machine
	@echo "Setting up .venv; the first time takes a few minutes."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --upgrade pip --constraint constraints.txt
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable 'python_plugin[dev]'
	@touch $@

machine:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.10 or newer is needed, and '$(PYTHON)' was not found." >&2; exit 1; }
	@$(PYTHON) scripts/check_machine.py

demo: setup ## Build the showcase on an embedded Spark and show what it wrote
	@$(BIN)/python scripts/get_data.py
	@$(BIN)/spark-bucketing extension build --output $(EXTENSION) >/dev/null
	@$(BIN)/dbt build $(PROFILE)
	@$(BIN)/spark-bucketing table show $(PROFILE)

evolution: setup ## Change the buckets of the showcase's flights_by_month by dbt run, and show the plans
	@$(BIN)/python scripts/evolution/evolve.py

corrections: setup ## Merge late corrections of a week into flights that are organized by time, and show which files change
	@$(BIN)/python scripts/evolution/corrections.py

test: lint ## Run every check and every test but the long ones
	@$(BIN)/pytest --config-file $(CONFIG) --rootdir . -m 'not long' $(WORKERS) $(HERE) tests

test-long: setup ## Run the tests that take long: more random cases, more crashes
	@$(BIN)/pytest --config-file $(CONFIG) --rootdir . -m long $(WORKERS) $(HERE) tests

test-dbt: setup ## Run dbt's own tests for adapters, with stock and with bucketed materializations
	@$(BIN)/pytest --config-file $(CONFIG) --rootdir . $(WORKERS) tests/adapter

test-versions: test-cross-version ## Run what depends on Spark with the other versions: VERSIONS="3.5 4.1"
	@set -e; for version in $(VERSIONS); do echo "Spark $$version"; \
	  env -u SPARK_HOME PYTHONPATH=$(CURDIR)/.venv/spark-$$version CASES=300 \
	    $(BIN)/pytest --config-file $(CONFIG) --rootdir . -m 'not long' $(WORKERS) $(OF_VERSIONS); done

test-cross-version: setup $(VERSIONS:%=.venv/spark-%/pyspark) ## Read with each version what the others have written: VERSIONS="3.5 4.1"
	@VERSIONS="$(VERSIONS)" $(BIN)/pytest --config-file $(CONFIG) --rootdir . tests/versions

.venv/spark-%/pyspark: spark-versions.txt | setup
	@grep -q '^pyspark==$*[.]' spark-versions.txt || { echo "spark-versions.txt has no Spark $*." >&2; exit 1; }
	@echo "Installing Spark $*"
	@rm -rf $(@D)
	@$(BIN)/python -m pip install --quiet --no-deps --target $(@D) "$$(grep '^pyspark==$*[.]' spark-versions.txt)"
	@touch $@

cluster-test: setup ## Run dbt, and faults, on a Spark cluster with a Hive metastore on PostgreSQL
	@$(BIN)/pytest --config-file $(CONFIG) --rootdir . -s tests/cluster

fuzz: setup ## Compare random queries with and without the extension: SEED=1 CASES=1000 EVOLVED=0.3
	@SEED=$(or $(SEED),1) CASES=$(or $(CASES),1000) EVOLVED=$(or $(EVOLVED),0.3) $(BIN)/pytest --config-file $(CONFIG) --rootdir . -s tests/fuzz

bench: setup ## Time joins of bucketed tables against plain ones: SCALE=1
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable 'python_plugin[bench]'
	@$(BIN)/python benchmarks/run.py --scale $(or $(SCALE),1)
	@$(BIN)/python benchmarks/statements.py
	@$(BIN)/python benchmarks/statements.py --rows 2000000 --only table --extension on --show

bench-tpch: setup ## Time TPC-H's 22 queries with and without the extension, over whole, small and empty inputs: SCALE=1
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable 'python_plugin[bench]'
	@$(BIN)/python benchmarks/tpch.py --scale $(or $(SCALE),1)

bench-advise: setup ## Run TPC-H as a dbt project before and after `spark-bucketing advise --apply`: SCALE=1
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable 'python_plugin[bench]'
	@$(BIN)/python benchmarks/advise_tpch.py --scale $(or $(SCALE),1)

bench-planning: setup ## Time planning over a Hive metastore on PostgreSQL: PARTITIONS=20000
	@$(BIN)/python benchmarks/planning.py --partitions $(or $(PARTITIONS),20000)

bench-files: setup ## Write a table by each strategy of organized_table: ROWS=2000000
	@$(BIN)/python benchmarks/file_strategies.py --rows $(or $(ROWS),2000000)

bench-ranges: setup ## Filter a table of many files by its file statistics, and without: FILES=20000
	@$(BIN)/python benchmarks/ranges.py --files $(or $(FILES),20000)

bench-merges: setup ## Time merges into an organized table, against writing partitions or all of it anew
	@$(BIN)/python benchmarks/merges.py

bench-lint: setup ## Compare the rules of sqlfluff with the check on random models, and time them: MODELS=500
	@$(BIN)/python benchmarks/lint_models.py --models $(or $(MODELS),500)

lint: setup ## Check style, types, imports, SQL and the documentation's links
	@$(BIN)/ruff check --config $(CONFIG) $(PY)
	@$(BIN)/ruff format --config $(CONFIG) --check $(PY)
	@$(BIN)/mypy --config-file $(CONFIG) $(PY)
	@$(BIN)/lint-imports --config $(CONFIG) --no-cache --no-logo
	@$(BIN)/sqlfluff lint $(SQL)
	@$(MKDOCS)

format: setup ## Repair what the linters can repair
	@$(BIN)/ruff check --config $(CONFIG) --fix $(PY)
	@$(BIN)/ruff format --config $(CONFIG) $(PY)
	@$(BIN)/sqlfluff fix $(SQL)

docs: setup ## Write the generated pages of the documentation, and build the site into site/
	@$(BIN)/python scripts/write_reference.py
	@$(MKDOCS)
	@echo "Open site/index.html"

dist: setup $(VERSIONS:%=.venv/spark-%/pyspark) ## Build the wheel into dist/, with the extension compiled for Spark 3.5 to 4.3
	@rm -rf dist $(JARS)
	@$(BIN)/spark-bucketing extension build --cache-dir $(JARS) >/dev/null
	@set -e; for version in $(VERSIONS); do \
	  SPARK_HOME=$(CURDIR)/.venv/spark-$$version/pyspark $(BIN)/spark-bucketing extension build --cache-dir $(JARS) >/dev/null; done
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist ./python_plugin
	@rm -rf $(JARS)
	@ls dist/*.whl

clean: ## Remove everything that was made here, .venv too
	rm -rf .venv .demo dist site target dbt_packages logs .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
