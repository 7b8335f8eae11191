"""Tests that the hash in bucketing version 2 equals the hash of Hive's classes, for random values of every type."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

ROWS = 100_000
DIGITS = "concat(abs(xxhash64(id, 1)), abs(xxhash64(id, 2)), abs(xxhash64(id, 3)))"
# A third of the strings have characters of two, three and four bytes.
TEXT = "substr(sha2(cast(id as string), 512), 1, int(id % 45))"
WORDS = f"if(id % 3 = 0, replace(translate({TEXT}, 'abcd', 'éß日語'), 'e', '\U0001f600'), {TEXT})"
NUMBER = "shiftright(xxhash64(id, 7), int(id % 64))"
VALUES = {
    "boolean": "id % 2 = 0",
    "tinyint": f"cast({NUMBER} % 128 as tinyint)",
    "smallint": f"cast({NUMBER} % 32768 as smallint)",
    "int": f"cast({NUMBER} % 2147483648 as int)",
    "bigint": NUMBER,
    "date": f"date_add(date'1970-01-01', cast({NUMBER} % 700000 as int))",
    "string": WORDS,
}


def decimal(precision: int, scale: int) -> str:
    """Return SQL for decimals of any number of digits, including trailing zeros."""
    whole = f"substr({DIGITS}, 1, int(id % {precision - scale + 1}))"
    fraction = f"rpad(substr({DIGITS}, 20, int(id % {scale + 1})), {scale}, '0')"
    text = f"concat(if(id % 2 = 0, '-', ''), '0', {whole}, '.', {fraction})"
    return f"cast({text} as decimal({precision}, {scale}))"


@pytest.fixture(scope="module")
def oracle(spark: SparkSession) -> Iterator[str]:
    spark.sql("create temporary function murmur_oracle as 'HiveMurmurOracle'")
    yield "murmur_oracle"
    spark.sql("drop temporary function murmur_oracle")


def differing(spark: SparkSession, oracle: str, values: str, rows: int, argument: str = "v") -> tuple[int, int]:
    """Return the number of rows, and the number of rows whose hashes differ."""
    value = f"if(id % 50 = 49, null, {values})"
    source = f"(select {value} as v from range({rows}))"
    row = spark.sql(f"select count(*), count_if(not hive2_hash(v) <=> {oracle}({argument})) from {source}").head()
    assert row is not None
    return row[0], row[1]


@pytest.mark.usefixtures("generated")
@pytest.mark.parametrize("sql_type", VALUES)
@pytest.mark.some(6)
def test_hash_equals_hives_classes(spark: SparkSession, oracle: str, sql_type: str) -> None:
    # Before 1582, Hive 2 uses the Julian calendar. Hive 3 hashes the days of the proleptic Gregorian calendar.
    argument = "unix_date(v)" if sql_type == "date" else "v"
    assert differing(spark, oracle, VALUES[sql_type], ROWS, argument) == (ROWS, 0)


@pytest.mark.parametrize("precision", [9, 18, 38])
@pytest.mark.long
def test_hash_of_decimals_of_every_scale_equals_hives_classes(spark: SparkSession, oracle: str, precision: int) -> None:
    rows = ROWS // precision
    text = "cast(v as string), 'decimal'"
    found = [differing(spark, oracle, decimal(precision, scale), rows, text) for scale in range(precision + 1)]
    assert sum(count for count, _ in found) >= ROWS
    assert [differs for _, differs in found] == [0] * len(found)
