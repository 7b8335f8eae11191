"""Create tables with mixed bucket specs, and read and write their seals and metadata."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from bucketed_tables import Tables
from py4j.java_gateway import JavaObject
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from spark_features import SPARK

# The columns and rows of tables with mixed bucket specs.
SCHEMA = "k int, j int, v bigint"
NUMBERS = "select cast(pmod(id * 37 + {n}, 90) - 20 as int) as k, cast(pmod(id * {n}, 70) as int) as j, id as v from range(400)"
NEW_ROWS = "select id as k, cast(id as string) as v, id % 2 as p from range(40)"


class StoredSpec(NamedTuple):
    """A partition's sealed number of buckets (or its reason code, or None), and the number in its descriptor."""

    of_seal: int | str | None
    described: int


def create(tables: Tables, name: str, buckets: int = 4, partition: str = "p bigint", stored: str = "parquet") -> None:
    """Create an empty partitioned table in the Hive layout."""
    rest = f"partitioned by ({partition})"
    tables.make(name, "k bigint, v string", "k", buckets, rest=rest, stored=f"stored as {stored}")


def evolve(tables: Tables, name: str, specs: dict[str, tuple[str, int]]) -> None:
    """Create a table whose partitions have the given specs: (column, number of buckets)."""
    (_, (column, buckets)), *_ = specs.items()
    tables.make(name, SCHEMA, column, buckets, rest="partitioned by (ds string)")
    for number, (day, (column, buckets)) in enumerate(specs.items(), 1):
        tables.sql(f"alter table {name} clustered by ({column}) sorted by ({column}) into {buckets} buckets")
        tables.fill(name, f"select *, '{day}' as ds from ({NUMBERS.format(n=number)})")


def add_files(tables: Tables, buckets: int, version: str, rows: str, partition: str = "") -> None:
    """Add the files of another writer, with rows in the buckets of this version, to the table `t`."""
    stored = f"stored as parquet tblproperties ('bucketing_version' = '{version}')"
    tables.make("u", "k int, v bigint", "k", buckets, stored=stored)
    tables.sql(f"insert into u {rows}")
    folder = tables.folder("t") / partition
    for file in tables.files("u"):
        shutil.copy(file, folder / f"{file.name[:5]}_0_2026_{version}_{len(list(folder.iterdir()))}")
    tables.sql("refresh table t")


def filled(tables: Tables, name: str, rows: str = "select * from new_rows", **how: Any) -> None:
    """Create the same table with rows, whose partitions the extension seals."""
    create(tables, name, **how)
    tables.sql(f"insert into {name} {rows}")


def refused(tables: Tables, statement: str, message: str) -> None:
    """Check that a statement fails with this message, and that the exception has the methods that dbt calls."""
    with pytest.raises(PySparkException) as caught:
        tables.sql(statement)
    error = caught.value
    # PySpark 3.5 has fewer methods.
    for said in (str(error), error.getMessage() if hasattr(error, "getMessage") else str(error)):
        assert re.search(message, said, re.DOTALL | re.IGNORECASE), said
    # In Spark 3.5, parser errors have no condition.
    if SPARK >= (4, 0) or not isinstance(error, ParseException):
        assert condition_of(error) and error.getMessageParameters() is not None
    assert "SET LOCATION" not in str(error)


def condition_of(error: PySparkException) -> str | None:
    """Return an error's condition, for which PySpark 3.5 has another method."""
    return error.getCondition() if hasattr(error, "getCondition") else error.getErrorClass()


def kept(tables: Tables, name: str) -> dict[str, StoredSpec]:
    """Return the stored spec of each partition; check that equal numbers of buckets have equal columns."""
    rows = tables.sql(
        "select partition, status, num_buckets, bucket_columns, sort_columns, "
        "descriptor_num_buckets, descriptor_bucket_columns, descriptor_sort_columns "
        f"from bucket_specs('{tables.database}.{name}')"
    )
    found = {}
    for partition, status, number, columns, sorts, described, *descriptor in rows:
        if number is not None and number == described:
            assert [columns, sorts] == descriptor, partition
        whole = number if status in ("sealed", "empty") else None if status == "not-sealed" else str(status)
        found[str(partition)] = StoredSpec(whole, int(str(described or 0)))  # type: ignore[arg-type]
    return found


def metastore(spark: SparkSession) -> JavaObject:
    jvm: Any = spark.sparkContext._jvm
    catalog = spark._jsparkSession.sharedState().externalCatalog().unwrapped()
    return jvm.org.apache.hadoop.hive.ql.metadata.Hive.get(catalog.client().conf()).getMSC()


def put_parameters(tables: Tables, name: str, partition: str, parameters: dict[str, str | None]) -> None:
    """Set parameters of a partition, or of the table if the partition name is empty; None removes a parameter."""
    with _altered(tables, name, partition) as found:
        for key, value in parameters.items():
            if value is None:
                found.getParameters().remove(key)
            else:
                found.getParameters().put(key, value)


@contextmanager
def _altered(tables: Tables, name: str, partition: str) -> Iterator[JavaObject]:
    found, client = _stored(tables, name, partition), metastore(tables.spark)
    yield found
    (client.alter_partition if partition else client.alter_table)(tables.database, name, found)


def _stored(tables: Tables, name: str, partition: str) -> JavaObject:
    client, table = metastore(tables.spark), (tables.database, name)
    return client.getPartition(*table, partition) if partition else client.getTable(*table)


def put_descriptor(tables: Tables, name: str, partition: str, buckets: int) -> None:
    """Set another number of buckets in the descriptor of a partition, or of the table if the partition name is empty."""
    with _altered(tables, name, partition) as found:
        found.getSd().setNumBuckets(buckets)


def put_schema(tables: Tables, name: str, columns: str | StructType) -> None:
    """Replace the data columns without changing the files."""
    types = tables.spark.sparkContext._jvm.org.apache.spark.sql.types  # type: ignore[union-attr]
    of_ddl = types.StructType.fromDDL
    schema = of_ddl(columns) if isinstance(columns, str) else types.DataType.fromJson(columns.json())
    tables.spark._jsparkSession.sharedState().externalCatalog().alterTableDataSchema(tables.database, name, schema)


def put_skew(tables: Tables, name: str, column: str, value: str) -> None:
    """Declare a table SKEWED BY a column, for which Spark has no DDL."""
    api = tables.spark.sparkContext._jvm.org.apache.hadoop.hive.metastore.api  # type: ignore[union-attr]
    with _altered(tables, name, "") as found:
        found.getSd().setSkewedInfo(api.SkewedInfo([column], [[value]], {}))


def put_field_ids(tables: Tables, name: str, first: int = 1) -> None:
    """Give the data columns field ids, which Spark can use to resolve columns in Parquet files."""
    catalog = tables.spark._jsparkSession.sharedState().externalCatalog()
    columns = StructType.fromJson(json.loads(catalog.getTable(tables.database, name).dataSchema().json()))
    for number, field in enumerate(columns, first):
        field.metadata = {**field.metadata, "parquet.field.id": number}
    put_schema(tables, name, columns)
    tables.sql(f"refresh table {name}")


def seal_of(tables: Tables, name: str, partition: str = "") -> dict[str, str]:
    """Return the parameters that make up the seal of a partition or a table."""
    found = _stored(tables, name, partition).getParameters()
    return {str(key): str(found[key]) for key in found if str(key).startswith("bucketing.")}


class Places(NamedTuple):
    """The three copies of a table's bucket spec."""

    descriptor: tuple[int, list[str], list[str]]
    properties: dict[str, str]
    spark: str


def places(tables: Tables, name: str) -> Places:
    """Return a table's descriptor, Spark's bucket properties, and the spec that Spark reads from them."""
    table = metastore(tables.spark).getTable(tables.database, name)
    descriptor = table.getSd()
    prefix = "spark.sql.sources.schema."
    properties = {
        str(key).removeprefix(prefix): str(value)
        for key, value in dict(table.getParameters()).items()
        if str(key).startswith(prefix) and ("ucket" in str(key) or "ort" in str(key))
    }
    described = tables.sql(f"describe formatted {name}")
    spark = [str(row[1]) for row in described if row[0] in ("Num Buckets", "Bucket Columns", "Sort Columns")]
    return Places(
        (
            descriptor.getNumBuckets(),
            [str(column) for column in descriptor.getBucketCols()],
            [str(order.getCol()) for order in descriptor.getSortCols()],
        ),
        properties,
        " ".join(spark),
    )


@contextmanager
def logged(spark: SparkSession, logger: str) -> Iterator[list[str]]:
    """Collect the lines of a JVM logger inside the block; the list is empty until the end of the block."""
    jvm: Any = spark.sparkContext._jvm
    log4j = jvm.org.apache.logging.log4j
    context = log4j.LogManager.getContext(False)
    writer = jvm.java.io.StringWriter()
    layout = log4j.core.layout.PatternLayout.newBuilder().withPattern("%m%n").build()
    appender = log4j.core.appender.WriterAppender.createAppender(layout, None, writer, "collected", True, False)
    appender.start()
    configured = log4j.core.config.LoggerConfig(logger, log4j.Level.INFO, False)
    configured.addAppender(appender, log4j.Level.INFO, None)
    context.getConfiguration().addLogger(logger, configured)
    context.updateLoggers()
    lines: list[str] = []
    try:
        yield lines
    finally:
        context.getConfiguration().removeLogger(logger)
        context.updateLoggers()
        lines.extend(str(writer.toString()).splitlines())


@contextmanager
def metastore_calls(spark: SparkSession) -> Iterator[list[str]]:
    """Collect the names of metastore calls inside the block; the list is empty until the end of the block."""
    calls: list[str] = []
    with logged(spark, "org.apache.hadoop.hive.metastore.HiveMetaStore.audit") as lines:
        yield calls
    calls.extend(line.split("cmd=", 1)[1].split()[0].rstrip(":") for line in lines if "cmd=" in line)
