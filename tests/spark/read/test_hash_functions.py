"""Tests that the SQL functions hive_hash and hive_bucket compute Hive's hash and bucket, also in generated code.

The extension is disabled, as in all tests that do not request it; its functions stay available.
"""

from __future__ import annotations

import re
from functools import reduce
from pathlib import Path

import pytest
import yaml
from hive_hashes import HASHES, VALUES
from macros import Macros
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from session_settings import setting
from spark_features import needs_collations

from conftest import Project

ODD_ROWS = """
    select array('', 'é', cast(x'ff61' as string), null, 'abc', cast(x'c3' as string), repeat(cast(x'fe' as string), 99))[id % 7] as s,
      array(date'0001-01-01', date'1500-02-03', date'1582-10-04', date'2024-02-29', null)[id % 5] as d,
      array(double('NaN'), -0.0d, 0.0d, 1.5d, double('-Infinity'), null)[id % 6] as f,
      cast(array(double('NaN'), -0.0d, 0.0d, 1.5d, null)[id % 5] as float) as g,
      cast(array(0, -1.5, 123.45, null)[id % 4] as decimal(10, 2)) as n, array(true, false, null)[id % 3] as b,
      array(null, -1, 0, 2147483647, -2147483648)[id % 5] as i, if(id % 11 = 0, null, -id * 12345678901) as l
    from range(2310)
"""
ODD_TYPES = {
    "s": "string", "d": "date", "f": "double", "g": "float", "n": "decimal", "b": "boolean", "i": "int", "l": "bigint",
}  # fmt: skip


def literal(text: str | None, sql_type: str) -> str:
    return f"cast({'null' if text is None else repr(text)} as {sql_type})"


@pytest.mark.usefixtures("generated")
@pytest.mark.parametrize(("bucket_hash", "sql_type"), VALUES)
@pytest.mark.some(20)
def test_hash_equals_hives_hash(spark: SparkSession, bucket_hash: str, sql_type: str) -> None:
    hashes = HASHES[bucket_hash][sql_type]
    values = ", ".join(literal(value, sql_type) for value in hashes)
    rows = spark.sql(
        f"select v, {bucket_hash}_hash(v) from (select explode(array({values})) as v from range(1))"
    ).collect()
    assert [hashed for _, hashed in rows] == [*hashes.values()], rows


@pytest.mark.usefixtures("generated")
@pytest.mark.parametrize("bucket_hash", HASHES)
@pytest.mark.some(2)
def test_hash_of_several_columns_equals_hives_hash(spark: SparkSession, bucket_hash: str) -> None:
    types = ["string", "bigint", "date", "decimal(10,2)", "int", "boolean"]
    for turn in range(8):
        hashes = [[*HASHES[bucket_hash][sql_type].items()] for sql_type in types]
        row = [values[turn % len(values)] for values in hashes]
        columns = ", ".join(f"{literal(row[i][0], kind)} as c{i}" for i, kind in enumerate(types))
        query = f"select {bucket_hash}_bucket(64, c0, c1, c2, c3, c4, c5) from (select {columns} from range(1))"
        hashed = reduce(lambda before, of: 31 * before + of[1], row, 0)
        assert spark.sql(query).collect() == [((hashed & 0x7FFFFFFF) % 64,)]


def test_bucket_is_the_unsigned_hash_modulo_the_number_of_buckets(spark: SparkSession) -> None:
    rows = spark.sql("select hive_hash(id, 'x'), hive_bucket(64, id, 'x') from range(-500, 500)").collect()
    assert all(bucket == (hashed & 0x7FFFFFFF) % 64 for hashed, bucket in rows)
    found = spark.sql("select hive_hash(null), hive_hash('Spark', 1), hive_bucket(8, 'Spark', 1)").collect()
    assert found == [(0, -1812310812, 4)]


def test_buckets_of_version_2_equal_the_buckets_of_trino(spark: SparkSession) -> None:
    """Trino's tests read these rows from a table that Hive wrote."""
    rows = "(select int(a) as a, tinyint(b) as b from values (1, 5), (10, 5), (1, 6), (10, 6) as t (a, b))"
    assert {row[0] for row in spark.sql(f"select hive2_bucket(8, a, b) from {rows}").collect()} == {0, 1, 5, 6}


def test_functions_generate_code(spark: SparkSession) -> None:
    plan = spark.sql("explain codegen select hive_bucket(8, id) from range(10)").collect()[0][0]
    assert "Found 1 WholeStageCodegen subtrees" in plan
    assert "HiveHasher.hashLong" in plan
    plan = spark.sql("explain codegen select hive2_bucket(8, id) from range(10)").collect()[0][0]
    assert "HiveMurmur3.hash((long)" in plan


def test_function_and_writer_compute_the_same_bucket(spark: SparkSession) -> None:
    """A query by hive_bucket must find the rows that INSERT wrote to a file."""
    spark.sql("drop table if exists by_function")
    columns = "s string, d date, n decimal(10, 2), b boolean, i int, l bigint, f double, g float"
    spark.sql(
        f"create table by_function ({columns}) clustered by (s, d, n, b, i, l, f, g) into 16 buckets stored as parquet"
    )
    # Spark 3.5 refuses ancient dates without this setting.
    with setting(spark, "spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED"):
        spark.sql(f"insert into by_function select s, d, n, b, i, l, f, g from ({ODD_ROWS})")
    query = "select distinct input_file_name(), hive_bucket(16, s, d, n, b, i, l, f, g) from by_function"
    rows = spark.sql(query).collect()
    assert len({bucket for _, bucket in rows}) == 16
    for name, bucket in rows:
        match = re.search(r"_(\d+)\.c000", name)
        assert match and int(match[1]) == bucket
    spark.sql("drop table by_function")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("hive_hash()", "hive_hash requires at least one column, provided: none"),
        ("hive_bucket(8)", "hive_bucket requires at least one column, provided: none"),
        ("hive_bucket()", "The first argument of hive_bucket must be the number of buckets"),
        ("hive_bucket(0, 1)", "a constant int above 0, provided: 0"),
        ("hive_bucket(-8, 1)", "a constant int above 0, provided: -8"),
        ("hive_bucket('8', 1)", "a constant int above 0, provided: '8'"),
        ("hive_bucket(null, 1)", "a constant int above 0, provided: NULL"),
        ("hive_bucket(3000000000, 1)", "a constant int above 0, provided: 3000000000"),
        ("hive_bucket(i, 1)", "a constant int above 0, provided: spark_catalog.default.refused_types.i"),
        ("hive_hash(x'00')", "does not support BINARY,"),
        ("hive_hash(current_timestamp())", "does not support TIMESTAMP,"),
        ("hive_bucket(8, 1, timestamp_ntz'2024-01-01 00:00:00')", "does not support TIMESTAMP_NTZ,"),
        ("hive_hash(interval 1 day)", "does not support INTERVAL DAY,"),
        ("hive_hash(array(1))", "does not support ARRAY<INT>,"),
        ("hive_hash(map(1, 2))", "does not support MAP<INT, INT>,"),
        ("hive_hash(struct(1 as a))", "does not support STRUCT<"),
        pytest.param(
            "hive_hash('a' collate UTF8_LCASE)", "does not support STRING COLLATE UTF8_LCASE,", marks=needs_collations
        ),
        ("hive2_hash()", "hive2_hash requires at least one column"),
        ("hive2_bucket(0, 1)", "Example: hive2_bucket(64, a_column)"),
        ("hive2_hash(1.5d)", "does not support DOUBLE,"),
        ("hive2_bucket(8, x'00')", "does not support BINARY,"),
        ("hive2_hash(vc)", "does not support VARCHAR(5),"),
        ("hive_hash(vc)", "does not support VARCHAR(5),"),
        ("hive_hash(c)", "does not support CHAR(5),"),
    ],
)
def test_unsupported_types_and_arguments_are_refused(spark: SparkSession, call: str, message: str) -> None:
    spark.sql("create table if not exists default.refused_types (vc varchar(5), c char(5), i int) using parquet")
    with pytest.raises(AnalysisException) as error:
        spark.sql(f"select {call} from default.refused_types")
    assert message in str(error.value)
    assert ".." not in str(error.value).split("SQLSTATE")[0]


def test_char_column_is_hashed_as_a_string(spark: SparkSession) -> None:
    spark.sql("create table if not exists default.refused_types (vc varchar(5), c char(5), i int) using parquet")
    hashed = "select hive_hash(cast(vc as string), cast(c as string)) from default.refused_types"
    assert spark.sql(hashed).collect() == []


def test_functions_are_documented(spark: SparkSession) -> None:
    for name in ("hive_hash", "hive_bucket", "hive2_hash", "hive2_bucket"):
        text = "\n".join(row[0] for row in spark.sql(f"describe function extended {name}").collect())
        assert f"Usage: {name}(" in text and f"SELECT {name}(" in text and "Since: 0.1.0" in text


@pytest.mark.long
def test_macro_fallback_computes_the_same_buckets_as_the_function(project: Project) -> None:
    """Spark converts values to Java types for Hive's UDF, which loses information; bucket_id() compensates for this."""
    project.spark.sql(f"create or replace temporary view odd_rows as {ODD_ROWS}")
    columns = [{"name": name, "type": sql_type} for name, sql_type in ODD_TYPES.items()]
    one_by_one = [[column] for column in columns]
    project.write(
        "macros/by_udf.sql",
        """
        {% macro by_udf() %}
          {% do run_query("create or replace temporary function spark_bucketing_hive_hash as 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFHash'") %}
        {% endmacro %}
        """,
    )
    compared = " union all ".join(
        f"""
        select '{" ".join(column["name"] for column in some)}' as keys,
          {{{{ spark_bucketing.bucket_id({some}, 1024, 'hive', 'hive_hash') }}}} as ours,
          {{{{ spark_bucketing.bucket_id({some}, 1024, 'hive', 'spark_bucketing_hive_hash') }}}} as udf,
          '{{{{ spark_bucketing.hive_hash_function() if execute }}}}' as chosen
        from odd_rows
        """
        for some in [*one_by_one, columns, columns[::-1]]
    )
    project.model("compared", "{% do by_udf() if execute %}\n" + compared, materialized="table", file_format="parquet")
    project.dbt("run")
    differing = "select keys, ours, udf from {schema}.compared where ours <> udf or ours is null or udf is null"
    assert project.rows(differing) == []
    chosen = project.rows("select count(distinct keys), count(distinct chosen), max(chosen) from {schema}.compared")
    assert chosen == [(10, 1, "hive_hash")]


# The macros and the extension must parse file names like the Python package.
NAMES = yaml.safe_load((Path(__file__).parents[2] / "cases" / "shared" / "file_names.yml").read_text())
BUCKETS = {case["name"]: (case["hive"], case["spark"]) for case in NAMES}


def test_extension_parses_file_names(spark: SparkSession) -> None:
    assert spark.sparkContext._jvm is not None
    bucketing = spark.sparkContext._jvm.org.apache.spark.sql.bucketing

    def read(name: str, layout: str) -> object:
        found = bucketing.metadata.BucketFiles.bucketOf(name, bucketing.hash.BucketHash.named(layout).get())
        return found.get() if found.isDefined() else None

    assert {name: (read(name, "hive"), read(name, "spark")) for name in BUCKETS} == BUCKETS


def test_macros_parse_file_names(spark: SparkSession) -> None:
    paths = ", ".join(f"'file:/w/t_00009.x/{name}'" for name in BUCKETS)
    columns = ", ".join(f"{Macros({}).bucket_id_of_path('path', layout)} as {layout}" for layout in ("hive", "spark"))
    rows = spark.sql(f"select path, {columns} from (select explode(array({paths})) as path)").collect()
    assert {row.path.rsplit("/", 1)[1]: (row.hive, row.spark) for row in rows} == BUCKETS
