"""Random queries over random tables, whole and broken: the same rows with the extension and without, or a clear error.

A short run is part of `make test`; `make fuzz SEED=7 CASES=2000` runs more, and names the seed and the case that fails. With
`EVOLVED=1` partitions of all tables have specs of their own.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable

import pytest
from bucketed import Tables
from generator import EVOLVED, Generator, Query, Table
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

SEED = int(os.environ.get("SEED", "1"))
CASES = int(os.environ.get("CASES", "14"))
TABLES, QUERIES_PER_POOL = 7, 40
# Of how many cases with tables that evolved it is certain that some are read as bucketed.
ENOUGH = 60
OURS = "is not bucketed as its metadata says"


@pytest.mark.usefixtures("extension")
def test_random_queries_return_the_same_rows(spark: SparkSession) -> None:
    tables = Tables(spark, "extension_fuzz")
    seen: Counter[str] = Counter()
    mixed, broken = seen.copy(), seen.copy()
    for start in range(0, CASES, QUERIES_PER_POOL):
        generator = Generator(tables, SEED * 100_000 + start)
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        jvm.org.apache.spark.sql.bucketing.BucketTrust.clear()
        pool = [generator.table(f"t{number}") for number in range(TABLES)]
        for case in range(start, min(start + QUERIES_PER_POOL, CASES)):
            query = generator.query(pool)
            kind = compare(tables, generator, pool, query, f"seed {SEED}, case {case}")
            read = [table for table in pool if re.search(rf"\b{table.name}\b", query.rows)]
            seen[kind] += 1
            mixed[kind] += any(table.evolved for table in read)
            broken[kind] += any(table.records for table in read)
        print(f"\n{seen.total()} cases of seed {SEED}: {dict(seen)}", flush=True)
        print(f"of tables of mixed specs: {dict(mixed)}, with broken records: {dict(broken)}", flush=True)
    assert seen["bucketed"] > 0
    # Each pool has a few tables that evolved, by chance none; of several pools some have.
    if EVOLVED * CASES >= ENOUGH:
        assert mixed["bucketed"] > 0, "no table of mixed specs was read as bucketed"
        assert broken["bucketed"] > 0, "no table with a broken record was read as bucketed"
        assert broken["plain"] > 0, "no table with a broken record was read plainly"


def compare(tables: Tables, generator: Generator, pool: list[Table], query: Query, case: str) -> str:
    """Run one query with and without the extension; says what the plan did."""
    settings = generator.settings()
    told = f"{case}\n{query.text}\n{settings}\n" + "\n".join(map(str, pool))
    with tables.settings(settings):
        stock, _ = outcome(lambda: (tables.stock_rows(query.rows), ""))
        kind = "plain"
        # Each failure tells the session of one file more that it cannot trust.
        for _ in range(12):
            rows, plan = outcome(lambda: tables.run(query.text))
            if not (isinstance(rows, str) and OURS in rows):
                break
            assert not all(table.is_whole for table in pool), f"{rows}\n{told}"
            kind = "failed, then plain"
        if isinstance(stock, str):
            return "fails without the extension as well"
        assert not isinstance(rows, str) and query.is_answered(rows, stock), f"{rows}\n{told}"
        return "bucketed" if kind == "plain" and "Bucketed: true" in plan else kind


def outcome(run: Callable[[], tuple[list[str], str]]) -> tuple[list[str] | str, str]:
    """Rows and plan, or the message of an error."""
    try:
        return run()
    except (PySparkException, Py4JJavaError) as error:
        return str(error), ""
