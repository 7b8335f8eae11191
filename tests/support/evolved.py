"""Tables whose partitions have bucket specs of their own, their seals, and what else the metastore keeps of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from bucketed import Tables

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession


ROWS = "select id as k, cast(id as string) as v, id % 2 as p from range(40)"


def with_new_rows(spark: SparkSession, database: str) -> Tables:
    """A database, and the view `new_rows`."""
    made = Tables(spark, database)
    made.sql(f"create or replace temporary view new_rows as {ROWS}")
    return made


class Kept(NamedTuple):
    """The number of buckets that a partition is sealed with, or the code of its seal, None without one; and its descriptor's."""

    of_seal: int | str | None
    described: int


def create(tables: Tables, name: str, buckets: int = 4, partition: str = "p bigint", stored: str = "parquet") -> None:
    """A partitioned table of the Hive layout without rows."""
    rest = f"partitioned by ({partition})"
    tables.make(name, "k bigint, v string", "k", buckets, rest=rest, stored=f"stored as {stored}")


def kept(tables: Tables, name: str) -> dict[str, Kept]:
    """What is kept of each partition; seals and descriptors of the same number have to be equal."""
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
        found[str(partition)] = Kept(whole, int(str(described or 0)))  # type: ignore[arg-type]
    return found


def _client(spark: SparkSession) -> JavaObject:
    jvm: Any = spark.sparkContext._jvm
    catalog = spark._jsparkSession.sharedState().externalCatalog().unwrapped()
    return jvm.org.apache.hadoop.hive.ql.metadata.Hive.get(catalog.client().conf()).getMSC()


def put_parameters(tables: Tables, name: str, partition: str, parameters: dict[str, str | None]) -> None:
    """Write parameters of a partition, or of the table for none, by hand; None removes one."""
    found = _stored(tables, name, partition)
    for key, value in parameters.items():
        if value is None:
            found.getParameters().remove(key)
        else:
            found.getParameters().put(key, value)
    _alter(tables, name, partition, found)


def _alter(tables: Tables, name: str, partition: str, altered: JavaObject) -> None:
    client = _client(tables.spark)
    if partition:
        client.alter_partition(tables.database, name, altered)
    else:
        client.alter_table(tables.database, name, altered)


def _stored(tables: Tables, name: str, partition: str) -> JavaObject:
    client = _client(tables.spark)
    if partition:
        return client.getPartition(tables.database, name, partition)
    return client.getTable(tables.database, name)


def put_descriptor(tables: Tables, name: str, partition: str, buckets: int) -> None:
    """Write another number of buckets into the descriptor of a partition, or of the table for none, by hand."""
    found = _stored(tables, name, partition)
    found.getSd().setNumBuckets(buckets)
    _alter(tables, name, partition, found)


def put_schema(tables: Tables, name: str, columns: str) -> None:
    """Other data columns for the files that there are."""
    jvm: Any = tables.spark.sparkContext._jvm
    schema = jvm.org.apache.spark.sql.types.StructType.fromDDL(columns)
    tables.spark._jsparkSession.sharedState().externalCatalog().alterTableDataSchema(tables.database, name, schema)


def seal_of(tables: Tables, name: str, partition: str = "") -> dict[str, str]:
    """The parameters of a partition, or of a table, that are a seal's."""
    found = _stored(tables, name, partition).getParameters()
    return {str(key): str(found[key]) for key in found if str(key).startswith("bucketing.")}


class Places(NamedTuple):
    """A table's buckets in the places that keep them."""

    descriptor: tuple[int, list[str], list[str]]
    properties: dict[str, str]
    spark: str


def places(tables: Tables, name: str) -> Places:
    """A table's descriptor, Spark's properties on buckets, and what Spark makes of them."""
    table = _client(tables.spark).getTable(tables.database, name)
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


def table_properties(tables: Tables, name: str) -> dict[str, str]:
    """A table's properties, as Spark shows them."""
    return {str(key): str(value) for key, value in tables.sql(f"show tblproperties {name}")}


@contextmanager
def logged(spark: SparkSession, logger: str) -> Iterator[list[str]]:
    """Collects the lines of a logger in the JVM during a block; the list is filled at its end."""
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
    """Names of the calls that reach the metastore during a block; the list is filled at its end."""
    calls: list[str] = []
    with logged(spark, "org.apache.hadoop.hive.metastore.HiveMetaStore.audit") as lines:
        yield calls
    calls.extend(line.split("cmd=", 1)[1].split()[0].rstrip(":") for line in lines if "cmd=" in line)
