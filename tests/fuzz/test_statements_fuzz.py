"""Random MERGE INTO, UPDATE and DELETE statements on organized and bucketed tables, compared with joins over plain tables.

`make test-long` includes a short run. `make fuzz SEED=7 CASES=1000` takes more statements, and reports the seed and the
number of a failure.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from random_statements import RANGES, REJECTED, Generator
from session_settings import setting
from statement_tables import BucketedTable, OrganizedTable, SparkLayoutTable, Table, fails

SEED = int(os.environ.get("SEED", "1"))
CASES = int(os.environ.get("CASES", "24"))
STATEMENTS_PER_TABLE = 12


@pytest.fixture
def functions(spark: SparkSession) -> list[str]:
    """Register Python, Java and SQL functions, and return conditions that call them with a number."""
    spark.udf.register("py_same", lambda number: number, "bigint")
    spark.udf.register("py_text", lambda value: value, "string")
    spark.udf.registerJavaFunction("add_one", "org.apache.spark.sql.bucketing.support.AddOne", "bigint")
    if not spark.version.startswith("3."):
        spark.sql("create or replace temporary function twice(number bigint) returns bigint return 2 * number")
    return ["py_same({}) % 2 = 1", "add_one({}) % 3 = 0"]


@contextmanager
def allowing_no_codegen(spark: SparkSession) -> Iterator[None]:
    """Set the property with which Spark allows NO_CODEGEN, and checks which methods the rules of its analyzer call."""
    system = spark.sparkContext._jvm.System  # type: ignore[union-attr]
    system.setProperty("spark.testing", "true")
    try:
        yield
    finally:
        system.clearProperty("spark.testing")


@contextmanager
def database(spark: SparkSession, name: str) -> Iterator[None]:
    spark.sql(f"create database {name}")
    current = spark.catalog.currentDatabase()
    spark.catalog.setCurrentDatabase(name)
    try:
        yield
    finally:
        spark.catalog.setCurrentDatabase(current)
        spark.sql(f"drop database {name} cascade")


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("layout", [OrganizedTable, BucketedTable, SparkLayoutTable])
@pytest.mark.long
def test_random_statements_equal_joins(
    spark: SparkSession, functions: list[str], layout: type[Table], tmp_path: Path
) -> None:
    outcomes: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    began = time.monotonic()
    for number in range(-(-CASES // STATEMENTS_PER_TABLE)):
        chosen = random.Random(SEED * 100_000 + number)
        ansi = chosen.random() < 0.7
        # Hive's ORC reader returns NULL instead of the default of a column that was added after the file.
        has_defaults = layout.has_defaults and number % 5 != 4
        generator = Generator(chosen, chosen.choice(list(RANGES)), ansi, functions, has_defaults)
        settings = {
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.ansi.enabled": str(ansi).lower(),
            # Most statements run without generated code, whose compilation takes longer than these queries.
            "spark.sql.codegen.wholeStage": str(number % 8 == 7).lower(),
            "spark.sql.codegen.factoryMode": "FALLBACK" if number % 8 == 7 else "NO_CODEGEN",
            "spark.sql.adaptive.enabled": str(number % 4 == 3).lower(),
            "spark.sql.orc.impl": "hive" if number % 5 == 4 else "native",
        }
        with ExitStack() as stack:
            stack.enter_context(allowing_no_codegen(spark))
            for key, value in settings.items():
                stack.enter_context(setting(spark, key, value))
            stack.enter_context(database(spark, f"statements_{layout.__name__.lower()}_{number}"))
            table = layout(spark, generator, tmp_path / str(number))
            for step in range(min(STATEMENTS_PER_TABLE, CASES - number * STATEMENTS_PER_TABLE)):
                if chosen.random() < 0.2:
                    changes[table.change()] += 1
                spark.sql(generator.source()).localCheckpoint(eager=False).createOrReplaceTempView("s")
                if chosen.random() < 0.2:
                    changes[fails(spark, *chosen.choice(list(REJECTED.items())))] += 1
                statement = generator.statement()
                try:
                    outcomes[table.check(statement)] += 1
                except BaseException:
                    print(f"\nseed {SEED}, table {number}, statement {step}: {statement.sql}", flush=True)
                    raise
            changes.update(table.reads)
        print(
            f"\n{outcomes.total()} statements of seed {SEED} in {time.monotonic() - began:.0f} s: {dict(outcomes)}, {dict(changes)}",
            flush=True,
        )
    assert outcomes.total() == CASES
