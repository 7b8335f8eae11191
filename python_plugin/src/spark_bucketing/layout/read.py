"""Reading the layout of tables through a SparkSession, with SQL and file listings only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.layout.table import DataFile, TableLayout
from spark_bucketing.session import setting, spark_call
from spark_bucketing.spec import BucketSpec

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

# Spark reads the tables of these formats in Hive layout with its own readers, which know the file of a row.
_READABLE_HIVE_FORMATS = ("parquet", "orc")


def read_layouts(session: SparkSession, schema: str, names: Sequence[str] = ()) -> list[TableLayout]:
    """Read the files of bucketed tables.

    Args:
        session: an open session with Hive support; its settings are left as they were.
        schema: the schema of the tables.
        names: tables of the schema, without it; none for all its bucketed tables.

    Raises:
        SparkError: Spark does not answer, or there is no such schema.
        TableError: a table in names does not exist or has no buckets.
    """
    with spark_call(f"The tables of schema {schema!r} cannot be listed."):
        rows = session.sql(f"show tables in {_quoted(schema)}").collect()
    known = {row.tableName.lower(): row.tableName for row in rows if not row.isTemporary}
    if unknown := [name for name in names if name.lower() not in known]:
        raise TableError(f"There is no table {unknown[0]!r} in schema {schema!r}.")
    wanted = [known[name.lower()] for name in names] or sorted(known.values())
    layouts = [(name, _read_layout(session, schema, name)) for name in wanted]
    if names and (plain := [name for name, layout in layouts if layout is None]):
        raise TableError(f"Table {plain[0]!r} in schema {schema!r} has no buckets.")
    return [layout for _, layout in layouts if layout is not None]


def _read_layout(session: SparkSession, schema: str, name: str) -> TableLayout | None:
    table = f"{_quoted(schema)}.{_quoted(name)}"
    with spark_call(f"Table {name!r} cannot be described."):
        rows = session.sql(f"describe table extended {table}").collect()
    details = _details(rows)
    spec = BucketSpec.from_description(details)
    if spec is None:
        return None
    file_format = _file_format(details)
    partitioned = any(row.col_name == "# Partition Information" for row in rows)
    files: tuple[DataFile, ...] = ()
    unreadable = ""
    try:
        files = _files(session, table, spec, file_format)
    except SparkError as error:
        unreadable = str(error)
    return TableLayout(name, spec, file_format, partitioned, files, unreadable)


def _details(rows: Sequence[Row]) -> dict[str, str]:
    """The part of DESCRIBE TABLE EXTENDED on the table itself; columns come before it and may have any name."""
    titles = [row.col_name if not row.data_type else "" for row in rows]
    start = titles.index("# Detailed Table Information") + 1
    return {row.col_name: row.data_type for row in rows[start:]}


def _file_format(details: dict[str, str]) -> str:
    provider = details.get("Provider", "").lower()
    if provider != "hive":
        return provider
    input_format = details.get("InputFormat", "").rpartition(".")[2]
    return next((name for name in _READABLE_HIVE_FORMATS if name in input_format.lower()), input_format)


def _files(session: SparkSession, table: str, spec: BucketSpec, file_format: str) -> tuple[DataFile, ...]:
    """All files of a table with their rows.

    Raises:
        SparkError: the files cannot be listed or read.
    """
    if spec.bucket_hash == "hive" and file_format not in _READABLE_HIVE_FORMATS:
        raise SparkError(f"The files of a Hive-layout table can be read as parquet and orc, not as {file_format}.")
    # A bucketed scan would drop the rows of files whose ids are out of range, and fail on names without an id.
    with spark_call("Its files cannot be read."), setting(session, "spark.sql.sources.bucketing.enabled", "false"):
        session.catalog.refreshTable(table)
        data = session.table(table)
        counts = data.groupBy("_metadata.file_path").count().collect()
        listed = data.inputFiles()
    rows = {_path(uri): 0 for uri in listed} | {_path(uri): number for uri, number in counts}
    return tuple(DataFile(path, number) for path, number in sorted(rows.items()))


def _path(uri: str) -> str:
    """One spelling of file:/x and file:///x, which Spark uses side by side."""
    parts = urlsplit(uri)
    return unquote(f"{parts.scheme}://{parts.netloc}{parts.path}")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
