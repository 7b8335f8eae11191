"""What there is of a table, without reading its rows: files, seals, bucket specs, file statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import unquote

from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.spec import BucketSpec, Description
from spark_bucketing.table import sql
from spark_bucketing.table.bucketed_files import BucketedFiles, DataFile, FileSizes
from spark_bucketing.table.compatibility import Merging
from spark_bucketing.table.file_statistics import FileStats, Organized, organized_by, read_file_statistics
from spark_bucketing.table.metadata import existing_table, merging_of, read_partitions
from spark_bucketing.table.model import Partition, Table, one_spelling
from spark_bucketing.table.warehouse import Warehouse

# Spark reads the tables of these formats in Hive layout with its own readers, which know the file of a row.
_READABLE_HIVE_FORMATS = ("parquet", "orc")
_LISTING = "spark_bucketing_listing"


@dataclass(frozen=True)
class Overview:
    """A bucketed or organized table. What the session cannot tell is None."""

    table: Table  # with its partitions, where the session has the extension
    files: BucketedFiles | None = None  # of a bucketed table
    merging: Merging | None = None  # when partitions of different specs are read together; None without the extension
    organized: Organized | None = None
    statistics: tuple[FileStats, ...] | None = None  # of an organized table

    @property
    def state(self) -> Literal["ok", "wrong", "unknown"]:
        """Whether the files are, by their names, those of the table's buckets."""
        return self.files.state if self.files else "ok"

    @property
    def file_format(self) -> str:
        """The format of its files: parquet, orc, or what else Spark calls it."""
        return self.files.file_format if self.files else Description(details=self.table.details).file_format

    @property
    def sizes(self) -> FileSizes | None:
        """Bytes of its files; None where nothing is known of single ones."""
        return self.files.sizes if self.files else FileSizes.of([file.size for file in self.statistics or ()])


def read_overviews(
    warehouse: Warehouse, schema: str, names: Sequence[str] = (), on_progress: Callable[[str], None] = lambda _: None
) -> Iterator[Overview]:
    """Read what there is of tables.

    Args:
        warehouse: with an open session, whose settings are left as they were.
        schema: of tables that are named without one.
        names: tables; none for all bucketed and organized tables of the schema.
        on_progress: is called with what is at work.

    Raises:
        SparkError: Spark does not answer, or there is no such schema.
        TableError: a table in names does not exist, or is neither bucketed nor organized.
    """
    chosen = [qualified(name, schema) for name in names] or _tables(warehouse, schema)
    merging = merging_of(warehouse) if warehouse.has_extension() else None
    for number, name in enumerate(chosen, 1):
        on_progress(f"listing files of {name}" + (f" ({number:,} of {len(chosen):,} tables)" if chosen[1:] else ""))
        found = _overview(warehouse, name, merging, bool(names))
        if found:
            yield found


def qualified(name: str, schema: str) -> str:
    """The name of a table with its schema.

    Raises:
        TableError: this is no name of a table.
    """
    parts = sql.parts(name)
    if not 1 <= len(parts) <= 2:
        raise TableError(f"{name!r} is no name of a table. Expected schema.table, or a table of the target's schema.")
    return ".".join(map(sql.readable_name, parts if len(parts) == 2 else (schema, *parts)))


def _tables(warehouse: Warehouse, schema: str) -> list[str]:
    rows = warehouse.rows(f"show tables in {sql.name(schema)}")
    names = sorted(row["tableName"] for row in rows if not row["isTemporary"])
    return [qualified(sql.name(name), schema) for name in names]


def _overview(warehouse: Warehouse, name: str, merging: Merging | None, is_named: bool) -> Overview | None:
    """None for a table of the schema that is neither bucketed nor organized.

    Raises:
        TableError: it was named by the user.
    """
    table = existing_table(warehouse, name)
    spec = BucketSpec.from_description(table.details)
    is_view = "VIEW" in table.details.get("Type", "").upper()
    organized = None if is_view else organized_by(table)
    if organized:
        return Overview(table, organized=organized, statistics=tuple(read_file_statistics(warehouse, organized)))
    if (is_view or not spec) and not is_named:
        return None
    if is_view:
        raise TableError(f"{name} is a view. Expected a table; name one of those that it reads.")
    if merging:
        table = replace(table, partitions=_partitions(warehouse, table))
    if spec:
        return Overview(table, _bucketed_files(warehouse, table, spec, bool(merging)), merging)
    if any(part.spec for part in table.partitions):
        return Overview(table, merging=merging)
    raise TableError(
        f"Table {name} has no buckets, no sealed partitions and no file statistics. Expected a bucketed table, or the "
        "table of a dbt model with `range_by` or `implicit_partition_by`."
    )


def _partitions(warehouse: Warehouse, table: Table) -> tuple[Partition, ...]:
    """By their seals, whose hash is the table's."""
    bucket_hash = table.spec.bucket_hash if table.spec else "hive"
    return tuple(
        replace(part, spec=replace(part.spec, bucket_hash=bucket_hash)) if part.spec else part
        for part in read_partitions(warehouse, table.name)
    )


def _bucketed_files(warehouse: Warehouse, table: Table, spec: BucketSpec, has_partitions: bool) -> BucketedFiles:
    evolving = table if has_partitions and table.columns and spec.bucket_hash == "hive" else None
    file_format = Description(details=table.details).file_format
    found = BucketedFiles(table.name, spec, file_format, bool(table.columns), evolving=evolving)
    try:
        return replace(found, files=_files(warehouse, table, found))
    except SparkError as error:
        return replace(found, unreadable=str(error))


def _files(warehouse: Warehouse, table: Table, found: BucketedFiles) -> tuple[DataFile, ...]:
    """All files of a table with their rows, which the files' ends tell.

    Raises:
        SparkError: the files cannot be listed or read.
    """
    if found.spec.bucket_hash == "hive" and found.file_format not in _READABLE_HIVE_FORMATS:
        raise SparkError(
            f"The files of a Hive-layout table can be read as parquet and orc, not as {found.file_format}."
        )
    name = sql.table(table.name)
    # A bucketed scan would drop the rows of files whose ids are out of range, and fail on names without an id.
    with warehouse.with_settings({"spark.sql.sources.bucketing.enabled": "false"}):
        warehouse.change(f"refresh table {name}")
        # Spark resolves _metadata before it takes its own reader for a table of the Hive layout.
        counted = warehouse.rows(
            f"select uri, count(*) as rows from (select input_file_name() as uri from {name}) group by uri"  # noqa: S608
        )
    rows = {one_spelling(unquote(row["uri"])): int(row["rows"]) for row in counted}
    # Folders below the table's that are no partition's are not its own.
    folders = {path.rpartition("/")[0] for path in rows} | {one_spelling(part.location) for part in table.partitions}
    folders |= set() if table.columns else {one_spelling(table.location)}
    listed = _sizes(warehouse, table)
    sizes = {path: size for path, size in listed.items() if path.rpartition("/")[0] in folders}
    return tuple(DataFile(path, rows.get(path, 0), sizes.get(path, 0)) for path in sorted({*rows, *sizes}))


def _sizes(warehouse: Warehouse, table: Table) -> dict[str, int]:
    """Bytes of the files below the folders of a table and its partitions, also of files without rows."""
    home = one_spelling(table.location)
    others = {one_spelling(part.location) for part in table.partitions}
    found: dict[str, int] = {}
    for folder in (home, *sorted(other for other in others if not f"{other}/".startswith(f"{home}/"))):
        options = sql.properties({"path": folder, "recursiveFileLookup": "true"})
        warehouse.change(f"create or replace temporary view {_LISTING} using binaryFile options {options}")
        try:
            listed = warehouse.rows(f"select path, length from {_LISTING}")  # noqa: S608
            found |= {one_spelling(row["path"]): int(row["length"]) for row in listed}
        finally:
            warehouse.change(f"drop view if exists {_LISTING}")
    return found
