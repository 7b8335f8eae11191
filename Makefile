PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
CONFIG := python_plugin/pyproject.toml
# Folders with Python and SQL files.
PY := python_plugin/src $(wildcard scripts) benchmarks tests
SQL := $(wildcard macros models) $(wildcard tests/projects)
PROFILE := --project-dir . --profiles-dir .
# There are three processes per two cores, and each process starts Spark once. Test files run in a fixed order: quick files without Spark come last, so that
# all processes finish at about the same time.
WORKERS := --numprocesses auto --dist loadfile --no-loadscope-reorder
LINTERS := lint-types lint-sql lint-style
# Separate targets run the tests that start a cluster, a peer or a browser.
HERE := --ignore tests/cluster --ignore tests/peers --ignore tests/browser
CHROMIUM ?= chromium
# The servers and jars that tests beside other systems need.
PEERS := .venv/peers
include tests/peers/versions.mk
# Other Spark versions. Each version has a directory that precedes .venv on Python's path.
VERSIONS ?= $(shell sed -n 's/^pyspark==\([0-9]*[.][0-9]*\)[.].*/\1/p' spark-versions.txt)
# Tests to run with each of these versions.
OF_VERSIONS := $(addprefix tests/spark/,test_spark_versions.py test_bucketed_table.py test_incremental.py test_incremental_differential.py test_microbatch.py \
  test_organized_table.py test_organized_ranges.py test_organized_incremental.py test_organized_merges.py test_row_changes.py test_row_changes_of_nested_columns.py test_file_replacement.py test_file_tests.py test_generic_tests.py test_sealed_generic_tests.py test_crashes.py test_swap_errors.py test_table_show.py read write evolution/test_alter_buckets.py)
# With --strict, broken links and anchors are errors. The variable disables an advertisement by the theme.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
# The path of the session extension in profiles.yml, and the cache for its jars.
EXTENSION := .venv/spark-bucketing-extension.jar
# The directory of the jars in the wheel.
JARS := python_plugin/src/spark_bucketing/extension/jars
export SPARK_BUCKETING_CACHE := $(CURDIR)/.venv/spark-bucketing

.DEFAULT_GOAL := help
.PHONY: help setup machine demo evolution corrections test test-quick mutate test-long test-browser test-dbt test-versions test-cross-version cluster-test peers peers-s3 peers-trino peers-hive peers-extensions fuzz bench-peers bench-statements bench-tpch bench-advise bench-check bench-star-joins bench-event-logs bench-planning bench-files bench-hashes lint lint-types lint-sql lint-style format docs dist clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Create .venv with dbt, spark-bucketing and the development tools at pinned versions

$(STAMP): constraints.txt $(CONFIG) | machine
	@echo "Setting up .venv; the first time takes a few minutes."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --upgrade pip --constraint constraints.txt
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable 'python_plugin[dev]'
	@touch $@

machine:
	@command -v $(PYTHON) >/dev/null || { echo "'$(PYTHON)' was not found. Install Python 3.10 or newer, or set PYTHON." >&2; exit 1; }
	@$(PYTHON) scripts/check_machine.py

demo: setup ## Compare joins, a window, a lookup and a MERGE without and with buckets on 8 million rows, in 6 minutes
	@$(BIN)/python scripts/get_data.py
	@echo "Compiling the session extension."
	@$(BIN)/spark-bucketing extension build --output $(EXTENSION) >/dev/null 2>&1
	@$(BIN)/python scripts/demo.py

evolution: setup ## Change the buckets of the showcase's flights_by_month with dbt run, and show the query plans
	@$(BIN)/python scripts/evolution/evolve.py

corrections: setup ## Merge a week of late corrections into an organized table of flights, and show which files change
	@$(BIN)/python scripts/evolution/corrections.py

test: setup ## Run all linters, and all tests except the long tests, in about 8 minutes on two cores
	@$(MAKE) --no-print-directory --output-sync --jobs 2 $(LINTERS) test-jars
	@$(BIN)/pytest --config-file $(CONFIG) --rootdir . -m 'not long' $(WORKERS) tests/spark tests/unit

test-quick: setup ## Run the quick linters and the tests without Spark, in less than a minute
	@$(BIN)/ruff check --config $(CONFIG) $(PY)
	@$(BIN)/ruff format --config $(CONFIG) --check $(PY)
	@$(BIN)/lint-imports --config $(CONFIG) --no-cache --no-logo
	@$(BIN)/pytest --config-file $(CONFIG) --rootdir . -q -m 'not long' $(WORKERS) tests/unit

mutate: setup ## Break random lines of code, one at a time, and list the changes that no test detects: SEED=1 MUTANTS=30 TESTS=tests/unit
	@$(BIN)/python tests/support/mutate.py $(SEED:%=--seed %) $(MUTANTS:%=--mutants %) $(TESTS)

test-long: setup ## Run all other cases: dbt's adapter tests, random statements, crashes, and rare variations
	@$(BIN)/pytest --config-file $(CONFIG) --rootdir . -m long $(WORKERS) $(HERE) tests

test-browser: setup ## Open the HTML reports in Chromium, narrow, dark and printed: CHROMIUM=chromium
	@command -v $(CHROMIUM) >/dev/null || { echo "'$(CHROMIUM)' was not found. Install Chromium (apt-get install chromium), or set CHROMIUM." >&2; exit 1; }
	@CHROMIUM=$(CHROMIUM) $(BIN)/pytest --config-file $(CONFIG) --rootdir . tests/browser

test-dbt: setup ## Run dbt's adapter tests with stock and with bucketed materializations
	@$(BIN)/pytest --config-file $(CONFIG) --rootdir . $(WORKERS) tests/adapter

test-versions: test-cross-version ## Run the Spark tests with other Spark versions: VERSIONS="3.5 4.1"
	@set -e; for version in $(VERSIONS); do echo "Spark $$version"; \
	  export PYTHONPATH=$(CURDIR)/.venv/spark-$$version CASES=300; unset SPARK_HOME; \
	  $(BIN)/pytest --config-file $(CONFIG) --rootdir . -m 'not long' $(WORKERS) $(OF_VERSIONS); \
	  $(BIN)/pytest --config-file $(CONFIG) --rootdir . $(WORKERS) tests/fuzz; done

test-cross-version: setup $(VERSIONS:%=.venv/spark-%/pyspark) ## Read tables that other Spark versions wrote: VERSIONS="3.5 4.1"
	@VERSIONS="$(VERSIONS)" $(BIN)/pytest --config-file $(CONFIG) --rootdir . tests/versions

.venv/spark-%/pyspark: spark-versions.txt | setup
	@grep -q '^pyspark==$*[.]' spark-versions.txt || { echo "spark-versions.txt does not list Spark $*." >&2; exit 1; }
	@echo "Installing Spark $*"
	@rm -rf $(@D)
	@$(BIN)/python -m pip install --quiet --no-deps --target $(@D) "$$(grep '^pyspark==$*[.]' spark-versions.txt)"
	@touch $@

cluster-test: setup ## Run dbt on a Spark cluster with a Hive metastore on PostgreSQL, and inject failures
	@$(BIN)/pytest --config-file $(CONFIG) --rootdir . -s tests/cluster

peers: peers-s3 peers-trino peers-hive peers-extensions ## Run all tests beside other systems, one after another

peers-s3: setup $(PEERS)/s3/.installed ## Run all statements on an S3 server with each committer, make requests fail, and race two writers (needs Go and Maven)
	@$(BIN)/pytest --config-file $(CONFIG) --rootdir . -s tests/peers/test_s3.py

$(PEERS)/s3/.installed: tests/peers/versions.mk tests/peers/s3.xml | setup
	@echo "Installing versitygw and the jars of S3A"
	@rm -rf $(@D)/jars
	@GOBIN=$(CURDIR)/$(@D) go install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)
	@mvn --quiet --batch-mode --file tests/peers/s3.xml -Dhadoop=$(HADOOP_VERSION) -Dcloud=$(SPARK_HADOOP_CLOUD_VERSION) \
	  dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(@D)/jars
	@touch $@

peers-trino: setup $(PEERS)/trino/.installed ## Let Trino read what Spark writes, and Spark what Trino writes (needs Java 24 and Maven)
	@$(BIN)/pytest --config-file $(CONFIG) --rootdir . -s tests/peers/test_trino.py

$(PEERS)/trino/.installed: tests/peers/versions.mk | setup
	@echo "Installing Trino"
	@rm -rf $(@D)
	@mvn --quiet --batch-mode dependency:copy -Dartifact=io.trino:trino-server:$(TRINO_VERSION):tar.gz -DoutputDirectory=$(CURDIR)/$(@D)/server
	@tar --extract --file $(@D)/server/*.tar.gz --directory $(@D)/server --strip-components 1
	@mkdir $(@D)/plugin
	@mv $(@D)/server/lib $(@D)/lib
	@mv $(@D)/server/plugin/hive $(@D)/plugin/hive
	@rm -rf $(@D)/server
	@touch $@

peers-hive: setup $(PEERS)/hive/.installed ## Let Hive 4 read what Spark writes, and Spark what Hive writes, on a metastore of Hive 4 (needs Maven)
	@$(BIN)/pytest --config-file $(CONFIG) --rootdir . -s tests/peers/test_hive.py

$(PEERS)/hive/.installed: tests/peers/versions.mk tests/peers/hive.xml | setup
	@echo "Installing Hive"
	@rm -rf $(@D)
	@mvn --quiet --batch-mode --file tests/peers/hive.xml -Dhive=$(HIVE_VERSION) -Dhadoop=$(HIVE_HADOOP_VERSION) -Dtez=$(TEZ_VERSION) \
	  dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(@D)/jars \
	  -DexcludeArtifactIds=slf4j-log4j12,slf4j-reload4j,log4j-1.2-api,log4j,hadoop-client-api
	@touch $@

peers-extensions: setup .venv/spark-4.1/pyspark $(PEERS)/extensions/.installed ## Run queries and statements beside Delta, Iceberg and Comet in Spark 4.1 (needs Maven)
	@env -u SPARK_HOME PYTHONPATH=$(CURDIR)/.venv/spark-4.1:$$PYTHONPATH $(BIN)/pytest --config-file $(CONFIG) --rootdir . -s tests/peers/test_extensions.py
	@env -u SPARK_HOME PYTHONPATH=$(CURDIR)/.venv/spark-4.1:$$PYTHONPATH ENGINE=comet SEED=$(or $(SEED),1) CASES=$(or $(CASES),200) \
	  LAYOUT='hive parquet,hive2 parquet,spark parquet' $(BIN)/pytest --config-file $(CONFIG) --rootdir . -s tests/peers/test_comet.py tests/fuzz/test_extension_fuzz.py

$(PEERS)/extensions/.installed: tests/peers/versions.mk tests/peers/extensions.xml | setup
	@echo "Installing Delta, Iceberg and Comet"
	@rm -rf $(@D)
	@mvn --quiet --batch-mode --file tests/peers/extensions.xml -Ddelta=$(DELTA_VERSION) -Diceberg=$(ICEBERG_VERSION) -Dcomet=$(COMET_VERSION) \
	  dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(@D)/jars
	@touch $@

fuzz: setup ## Compare random queries with and without the extension: SEED=1 CASES=1000 EVOLVED=0.3 DIVIDED=0.2 LAYOUT=hive2
	@SEED=$(or $(SEED),1) CASES=$(or $(CASES),1000) EVOLVED=$(or $(EVOLVED),0.3) DIVIDED=$(or $(DIVIDED),0.2) LAYOUT="$(LAYOUT)" $(BIN)/pytest --config-file $(CONFIG) --rootdir . -s tests/fuzz

bench-peers: setup .venv/spark-4.1/pyspark $(PEERS)/extensions/.installed ## Compare joins, merges, lookups and few buckets with Iceberg, Delta, Comet and stock Spark 4.1: PARTS="joins merges lookups buckets" SCALE=1 ROWS=2000000 FILES=1000 ROUNDS=5 CORES=2 SHAPES=3
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable 'python_plugin[bench]'
	@env -u SPARK_HOME PYTHONPATH=$(CURDIR)/.venv/spark-4.1:$$PYTHONPATH $(BIN)/python benchmarks/bench_peers.py $(if $(PARTS),--parts $(PARTS)) \
	  --scale $(or $(SCALE),1) --rows $(or $(ROWS),2000000) --files $(or $(FILES),1000) --rounds $(or $(ROUNDS),5) --cores $(or $(CORES),2) --shapes $(or $(SHAPES),3)

bench-statements: setup ## Time runs of small models with and without the extension, and beside dbt-spark
	@$(BIN)/python benchmarks/statements.py
	@$(BIN)/python benchmarks/statements.py --rows 2000000 --only table --extension on --show

bench-tpch: setup ## Time the 22 TPC-H queries with and without the extension, on full, small and empty inputs: SCALE=1
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable 'python_plugin[bench]'
	@$(BIN)/python benchmarks/tpch.py --scale $(or $(SCALE),1)

bench-advise: setup ## Run TPC-H as a dbt project before and after `spark-bucketing advise --apply`: SCALE=1
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable 'python_plugin[bench]'
	@$(BIN)/python benchmarks/advise_tpch.py --scale $(or $(SCALE),1)

bench-event-logs: setup ## Compare `spark-bucketing report` with dbt's own times on TPC-H: SCALE=0.1
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable 'python_plugin[bench]'
	@$(BIN)/python benchmarks/event_logs.py --scale $(or $(SCALE),0.1)

bench-check: setup $(PEERS)/tpcds/.installed ## Check the 103 queries of TPC-DS, each of whose shuffles must have a reason (needs Maven)
	@$(BIN)/python benchmarks/check_tpcds.py --jars $(PEERS)/tpcds

bench-star-joins: setup $(PEERS)/tpcds/.installed ## Show what star joins of TPC-DS read with and without run-time filters (needs Maven): SCALE=1
	@$(BIN)/python benchmarks/star_joins.py --jars $(PEERS)/tpcds --scale $(or $(SCALE),1)

$(PEERS)/tpcds/.installed: tests/peers/versions.mk | setup
	@echo "Installing the queries and the tables of TPC-DS"
	@mvn --quiet --batch-mode dependency:copy -Dartifact=org.apache.spark:spark-sql_2.13:$(SPARK_TESTS_VERSION):jar:tests -DoutputDirectory=$(CURDIR)/$(@D)
	@mvn --quiet --batch-mode dependency:copy -Dartifact=io.trino.tpcds:tpcds:$(TPCDS_VERSION) -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

bench-planning: setup ## Time query planning with a Hive metastore on PostgreSQL: PARTITIONS=20000
	@$(BIN)/python benchmarks/planning.py --partitions $(or $(PARTITIONS),20000)

bench-files: setup ## Write a table with each file strategy of organized_table: ROWS=2000000
	@$(BIN)/python benchmarks/file_strategies.py --rows $(or $(ROWS),2000000)

bench-hashes: setup ## Compare the times of Hive's bucketing versions 1 and 2: ROWS=5000000
	@$(BIN)/python benchmarks/hashes.py --rows $(or $(ROWS),5000000)

test-jars:
	@PYTHONPATH=tests/support $(BIN)/python -c 'from local_files import build_jars; build_jars()'

lint: setup ## Check style, types, imports, SQL, spelling and links in the documentation
	@$(MAKE) --no-print-directory --output-sync --jobs 2 $(LINTERS)

lint-types:
	@$(BIN)/mypy --config-file $(CONFIG) $(PY)

lint-sql:
	@$(BIN)/sqlfluff lint $(SQL)

lint-style:
	@$(BIN)/ruff check --config $(CONFIG) $(PY)
	@$(BIN)/ruff format --config $(CONFIG) --check $(PY)
	@$(BIN)/lint-imports --config $(CONFIG) --no-cache --no-logo
	@git ls-files ':!LICENSE' ':!scripts/retired_words.txt' | xargs $(BIN)/codespell --toml $(CONFIG) -D - -D scripts/retired_words.txt
	@$(MKDOCS)

format: setup ## Apply the fixes of the linters
	@$(BIN)/ruff check --config $(CONFIG) --fix $(PY)
	@$(BIN)/ruff format --config $(CONFIG) $(PY)
	@$(BIN)/sqlfluff fix $(SQL)

docs: setup ## Generate the reference pages of the documentation, and build the site in site/
	@$(BIN)/python scripts/write_reference.py
	@$(MKDOCS)
	@echo "Open site/index.html"

dist: setup $(VERSIONS:%=.venv/spark-%/pyspark) ## Build the wheel in dist/, with the extension compiled for Spark 3.5 to 4.3
	@rm -rf dist $(JARS)
	@$(BIN)/spark-bucketing extension build --cache-dir $(JARS) >/dev/null
	@set -e; for version in $(VERSIONS); do \
	  SPARK_HOME=$(CURDIR)/.venv/spark-$$version/pyspark $(BIN)/spark-bucketing extension build --cache-dir $(JARS) >/dev/null; done
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist ./python_plugin
	@rm -rf $(JARS)
	@ls dist/*.whl

clean: ## Remove all generated files, including .venv
	rm -rf .venv .demo dist site target dbt_packages logs .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
