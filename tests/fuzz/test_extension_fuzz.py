"""Tests that random queries over random tables, valid or damaged, return the same rows with and without the extension.

`make test-long` includes a short run. `make fuzz SEED=7 CASES=2000` runs more cases, and reports the seed and the case of a
failure. With `EVOLVED=1`, all tables have mixed bucket specs. With `DIVIDED=1`, all have few buckets, which several tasks
read. `make peers-extensions` runs cases in a session with Comet.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from time import monotonic

import pytest
from bucketed_tables import ERRORS, Tables, cores, small_pages
from generator import DIVIDED, EVOLVED, Generator, Query, Table
from peers import comet_settings
from pyspark.sql import SparkSession

SEED = int(os.environ.get("SEED", "1"))
CASES = int(os.environ.get("CASES", "30"))
# Stock Spark runs each query once, and the extension runs it under several settings.
SETTINGS_PER_QUERY = 4
# Whether Comet replaces operators of Spark 4.1, except for the rows to compare with.
WITH_COMET = os.environ.get("ENGINE") == "comet"
STOCK = {
    "spark.comet.enabled": "false",
    "spark.bucketing.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# By default, Spark refuses files without field ids for columns that have ids. Hive's classes write text tables.
ALWAYS = {"spark.sql.parquet.fieldId.read.ignoreMissing": "true", "hive.exec.dynamic.partition.mode": "nonstrict"}
# With at least this many cases, some tables with mixed specs are certainly read as bucketed.
ENOUGH = 60
TABLES, CASES_PER_POOL = 6 if CASES >= ENOUGH else 4, 240


@pytest.fixture(scope="session")
def more_settings() -> dict[str, str]:
    return comet_settings() if WITH_COMET else {}


@pytest.mark.usefixtures("extension")
@pytest.mark.long
def test_random_queries_return_the_same_rows(spark: SparkSession) -> None:
    tables = Tables(spark, "extension_fuzz")
    with small_pages(spark), tables.settings(ALWAYS):
        compare_all(tables)


def compare_all(tables: Tables) -> None:
    """Run all cases, and check that some of each kind read buckets."""
    began = monotonic()
    seen: Counter[str] = Counter()
    mixed, broken, codes, divided = seen.copy(), seen.copy(), seen.copy(), seen.copy()
    native = 0
    for start in range(0, CASES, CASES_PER_POOL):
        generator = Generator(tables, SEED * 100_000 + start)
        pool: list[Table] = []
        for number in range(TABLES):
            pool.append(generator.table(f"t{number}", [table.name for table in pool]))
        print(f"\n{number + 1} tables after {monotonic() - began:.0f} s", flush=True)
        for case in range(start, min(start + CASES_PER_POOL, CASES)):
            if (case - start) % SETTINGS_PER_QUERY == 0:
                query = generator.query(pool)
                read = [table for table in pool if re.search(rf"\b{table.name}\b", query.rows)]
                reader = generator.reader()
                refresh(tables, read)
                stock = outcome(tables, query.rows, STOCK | reader)
            with cores(tables.spark, generator.cores()):
                kind, plan = compare(
                    tables, generator.settings() | reader, pool, query, stock, f"seed {SEED}, case {case}"
                )
            seen[kind] += 1
            mixed[kind] += any(table.evolved for table in read)
            broken[kind] += any(table.is_broken for table in read)
            divided.update(set(re.findall("by range|merged|skew=true", plan)))
            native += len(re.findall(r"CometNativeScan .*Bucketed: true \(", plan))
            # Count the reasons for ordinary scans, and the hashes of bucketed scans.
            codes.update(set(re.findall(r"Bucketed: (?:false \[|true \(\d+ )([\w-]+)", plan)))
        print(f"\n{seen.total()} cases of seed {SEED} in {monotonic() - began:.0f} s: {dict(seen)}", flush=True)
        print(f"of mixed specs: {dict(mixed)}, of broken tables: {dict(broken)}, codes: {dict(codes)}", flush=True)
        print(f"native scans: {native}, divided: {dict(divided)}", flush=True)
    assert seen["bucketed"] > 0
    assert bool(native) == WITH_COMET
    if CASES >= ENOUGH and not WITH_COMET:
        assert divided["by range"] > 0, "no bucket was divided into ranges"
    # A single pool may by chance have no table with mixed specs, but several pools have some.
    # Comet reads few of them.
    if ENOUGH * (5 if WITH_COMET else 1) <= EVOLVED * (1 - DIVIDED) * CASES:
        assert mixed["bucketed"] > 0, "no table with mixed specs was read as bucketed"
        assert broken["bucketed"] > 0, "no broken table was read as bucketed"
        assert codes["Hive2"] > 0, "no table in bucketing version 2 was read as bucketed"
        assert broken["plain"] > 0, "no broken table was read by an ordinary scan"


Outcome = tuple[list[str], str] | str


def compare(
    tables: Tables, settings: dict[str, str], pool: list[Table], query: Query, stock: Outcome, case: str
) -> tuple[str, str]:
    """Run a query with the extension; return the kind of its plan, and the plan."""
    found = outcome(tables, query.text, settings)
    if isinstance(found, str) and "sealed files" in found and any(table.breakage == "lose" for table in pool):
        # The extension does not read a table that has lost rows, unless the session accepts the loss.
        found = outcome(tables, query.text, settings | {"spark.sql.files.ignoreMissingFiles": "true"})
    if isinstance(stock, str):
        return "fails without the extension, too", ""
    without = settings | {"spark.bucketing.enabled": "false"}
    if WITH_COMET and isinstance(found, str) and isinstance(outcome(tables, query.text, without), str):
        return "fails with Comet alone, too", ""
    described = f"{case}\n{query.text}\n{settings}\n" + "\n".join(map(str, pool))
    assert not isinstance(found, str), f"{found}\n{described}"
    rows, plan = found
    if WITH_COMET and not query.is_answered(rows, stock[0]):
        alone = outcome(tables, query.text, without)
        if not isinstance(alone, str) and not query.is_answered(alone[0], stock[0]):
            print(f"Comet alone returns other rows, too: {described}", flush=True)
            return "differs with Comet alone, too", plan
    assert query.is_answered(rows, stock[0]), f"{rows[:5]}, expected {stock[0][:5]}\n{described}\n{plan}"
    return "bucketed" if "Bucketed: true (" in plan else "plain", plan


def refresh(tables: Tables, read: list[Table]) -> None:
    """Refresh ORC tables in the Spark layout, because Spark caches their reader even if the reader's setting changes."""
    for table in read:
        if table.layout == "spark orc":
            tables.sql(f"refresh table {table.name}")


def outcome(tables: Tables, query: str, settings: dict[str, str]) -> Outcome:
    """Return the rows and the plan, or the message of an error."""
    try:
        with tables.settings(settings):
            return tables.run(query)
    except ERRORS as error:
        return str(error)
