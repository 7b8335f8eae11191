"""Reading the layout of tables through a SparkSession, with SQL and file listings only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.metadata import describe_table, read_partitions
from spark_bucketing.evolution.model import Table
from spark_bucketing.evolution.warehouse import Warehouse
from spark_bucketing.layout.table import DataFile, TableLayout
from spark_bucketing.session import SessionStatements, file_length, setting, spark_call
from spark_bucketing.spec import BucketSpec, Description

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark reads the tables of these formats in Hive layout with its own readers, which know the file of a row.
_READABLE_HIVE_FORMATS = ("parquet", "orc")


def read_layouts(
    session: SparkSession, schema: str, names: Sequence[str] = (), on_progress: Callable[[str], None] = lambda _: None
) -> list[TableLayout]:
    """Read the files of bucketed tables.

    Args:
        session: an open session with Hive support; its settings are left as they were.
        schema: the schema of the tables.
        names: tables of the schema, without it; none for all its bucketed tables.
        on_progress: is called with what is at work.

    Raises:
        SparkError: Spark does not answer, or there is no such schema.
        TableError: a table in names does not exist or has no buckets.
    """
    with spark_call(f"The tables of schema {schema!r} cannot be listed."):
        rows = session.sql(f"show tables in {sql.name(schema)}").collect()
    known = {row.tableName.lower(): row.tableName for row in rows if not row.isTemporary}
    if unknown := [name for name in names if name.lower() not in known]:
        raise TableError(f"There is no table {unknown[0]!r} in schema {schema!r}.")
    wanted = [known[name.lower()] for name in names] or sorted(known.values())
    layouts = []
    for number, name in enumerate(wanted, 1):
        on_progress(f"counting rows of {number:,} of {len(wanted):,} tables ({name})")
        layouts.append((name, _read_layout(session, schema, name)))
    if names and (plain := [name for name, layout in layouts if layout is None]):
        raise TableError(f"Table {plain[0]!r} in schema {schema!r} has no buckets.")
    return [layout for _, layout in layouts if layout is not None]


def _read_layout(session: SparkSession, schema: str, name: str) -> TableLayout | None:
    table = f"{sql.name(schema)}.{sql.name(name)}"
    with spark_call(f"Table {name!r} cannot be described."):
        rows = session.sql(f"describe table extended {table}").collect()
    found = Description.of(rows)
    spec = BucketSpec.from_description(found.details)
    if spec is None:
        return None
    layout = TableLayout(name, spec, found.file_format, bool(found.partition_columns))
    try:
        files = _files(session, table, layout)
        evolving = _evolving(session, schema, name) if layout.partitioned and spec.bucket_hash == "hive" else None
    except SparkError as error:
        return replace(layout, unreadable=str(error))
    return replace(layout, files=files, evolving=evolving)


def _files(session: SparkSession, table: str, layout: TableLayout) -> tuple[DataFile, ...]:
    """All files of a table with their rows.

    Raises:
        SparkError: the files cannot be listed or read.
    """
    if layout.spec.bucket_hash == "hive" and layout.file_format not in _READABLE_HIVE_FORMATS:
        raise SparkError(
            f"The files of a Hive-layout table can be read as parquet and orc, not as {layout.file_format}."
        )
    # A bucketed scan would drop the rows of files whose ids are out of range, and fail on names without an id.
    with spark_call("Its files cannot be read."), setting(session, "spark.sql.sources.bucketing.enabled", "false"):
        session.catalog.refreshTable(table)
        data = session.table(table)
        counted = data.groupBy("_metadata.file_path", "_metadata.file_size").count().collect()
        files = {_path(uri): DataFile(_path(uri), rows, size) for uri, size, rows in counted}
        for uri in data.inputFiles():
            # Rows alone know the sizes of their files.
            if _path(uri) not in files:
                files[_path(uri)] = DataFile(_path(uri), 0, file_length(session, uri))
    return tuple(files[path] for path in sorted(files))


def _evolving(session: SparkSession, schema: str, name: str) -> Table | None:
    """The table with its partitions; None in a session without the extension, which alone knows them."""
    with closing(SessionStatements(session)) as statements:
        warehouse, table = Warehouse(statements.rows), f"{sql.readable_name(schema)}.{sql.readable_name(name)}"
        found = describe_table(warehouse, table) if warehouse.has_extension() else None
        return replace(found, partitions=read_partitions(warehouse, table)) if found else None


def _path(uri: str) -> str:
    """One spelling of file:/x and file:///x, which Spark uses side by side."""
    parts = urlsplit(uri)
    return unquote(f"{parts.scheme}://{parts.netloc}{parts.path}")
