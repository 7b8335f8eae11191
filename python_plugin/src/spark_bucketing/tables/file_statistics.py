"""Read, verify and repair the file statistics of an organized table; see docs/explanation/file-layout.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from json import loads
from typing import Literal
from urllib.parse import unquote

from spark_bucketing import sql
from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.tables.metadata import TableMetadata, existing_table
from spark_bucketing.tables.warehouse import Warehouse

_FOLDER = "_file_statistics"
_SAME_FILE = "actual.file = saved.file and actual.bytes = saved.bytes and actual.modified = saved.modified"
_TRUTH = "spark_bucketing_file_statistics"
# Values are JSON arrays. DESCRIBE does not distinguish their commas from the commas between properties.
_NAMES = re.compile(r"bucketing\.(range_by|implicit_partition_by)=(\[.*?\])(?=, |\]$)")
# Whether valid statistics cover a file. `not-covered`: another writer added or replaced the file, and all queries read
# it. `wrong`: the statistics differ from the rows.
FileState = Literal["covered", "not-covered", "wrong"]


@dataclass(frozen=True)
class FileStats:
    """A file of the table, as described by its statistics or by its rows. The values are text."""

    name: str  # path below the table's folder
    size: int  # bytes
    rows: int
    state: FileState
    implicit_partition: str | None = None  # values of the implicit partition columns
    lower: str | None = None  # minimum of the range column; None if all values are NULL
    upper: str | None = None  # maximum of the range column
    nulls: int | None = None
    overlaps: bool = False  # whether its range overlaps the range of another file in its partition


@dataclass(frozen=True)
class Organized:
    """An organized table, as described by the metastore."""

    table: TableMetadata
    range_by: str | None
    implicit_partition_by: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Return the directory that contains the table's file statistics."""
        return f"{self.table.details['Location']}/{_FOLDER}"


def organized_table(warehouse: Warehouse, name: str) -> Organized:
    """Read an organized table from the metastore."""
    found = as_organized(existing_table(warehouse, name))
    if found is None:
        raise TableError(
            f"Table `{name}` has no file statistics.",
            expected="the table of a dbt model with materialized='organized_table' or 'organized_incremental', and "
            "`range_by` or `implicit_partition_by`",
            instead="add one of these keys to the model's config, and run the model",
        )
    return found


def as_organized(table: TableMetadata) -> Organized | None:
    """Parse the columns from a table's properties, or return None without file statistics."""
    found = {key: loads(names) for key, names in _NAMES.findall(table.details.get("Table Properties", ""))}
    if not found:
        return None
    return Organized(table, next(iter(found.get("range_by", [])), None), tuple(found.get("implicit_partition_by", [])))


def read_file_statistics(warehouse: Warehouse, organized: Organized) -> list[FileStats]:
    """Return the table's files with their statistics. Spark reads the file footers, but no rows."""
    listed = (
        f"select {_tail(organized)} as file, max(_metadata.file_size) as bytes, count(*) as rows,"  # noqa: S608
        f" max(_metadata.file_modification_time) as modified from {sql.table(organized.table.name)} group by _metadata.file_path"  # noqa: E501
    )
    return _files(warehouse, organized, listed, [], _texts(organized, "saved."))


def verify_file_statistics(warehouse: Warehouse, organized: Organized) -> list[FileStats]:
    """Compare the stored statistics with those of the rows, all of which Spark reads once."""
    compared = [
        *(["lower", "upper", "nulls"] if organized.range_by else []),
        *(["implicit_partition"] if organized.implicit_partition_by else []),
    ]
    same = " and ".join(f"actual.{name} <=> saved.{name}" for name in [*compared, "rows", "checksum"])
    overlap = f"{_follows(organized)} as overlaps" if organized.range_by else "false as overlaps"
    return _files(warehouse, organized, _truth(organized), _texts(organized, "actual."), [f"{same} as same", overlap])


def repair_file_statistics(warehouse: Warehouse, organized: Organized) -> int:
    """Replace all statistics with one file, computed from all rows; return the number of files that it covers.

    After an interruption, the table may have no statistics, and queries read all files.
    """
    warehouse.rows(f"cache table {_TRUTH} as {_truth(organized)}")
    try:
        folder = sql.text(organized.folder)
        warehouse.rows(
            f"insert overwrite directory {folder} using parquet select /*+ coalesce(1) */ * from {_TRUTH}"  # noqa: S608
        )
        return int(warehouse.rows(f"select count(*) as files from {_TRUTH}")[0]["files"])  # noqa: S608
    finally:
        warehouse.rows(f"drop view if exists {_TRUTH}")


def _tail(organized: Organized) -> str:
    return f"substring_index(_metadata.file_path, '/', {-1 - len(organized.table.columns)})"


def _truth(organized: Organized) -> str:
    """Return a query that computes the statistics from the rows, as the extension does when it writes files."""
    partition = [column.name for column in organized.table.columns]
    groups = [("partition", partition), ("implicit_partition", list(organized.implicit_partition_by))]
    columns = [
        f"{_tail(organized)} as file",
        "max(_metadata.file_size) as bytes",
        "max(_metadata.file_modification_time) as modified",
        *(f"struct({', '.join(map(sql.name, names))}) as {alias}" for alias, names in groups if names),
    ]
    if organized.range_by:
        value = sql.name(organized.range_by)
        columns += [
            f"struct(min({value}) as {value}) as lower",
            f"struct(max({value}) as {value}) as upper",
            f"count(*) - count({value}) as nulls",
        ]
    hashed = (
        f"cast({sql.name(column.name)} as string)"
        if re.search("map<|variant", column.type.lower())
        else sql.name(column.name)
        for column in organized.table.all_columns
    )
    columns += ["count(*) as rows", f"sum(cast(xxhash64({', '.join(hashed)}) as decimal(38, 0))) as checksum"]
    by = ", ".join(["_metadata.file_path", *map(sql.name, [*partition, *organized.implicit_partition_by])])
    return f"select {', '.join(columns)} from {sql.table(organized.table.name)} group by {by}"  # noqa: S608


def _follows(organized: Organized) -> str:
    """Return a SQL expression that is true if a file's minimum is at most the maximum of some earlier file."""
    groups = [
        *(["actual.partition"] if organized.table.columns else []),
        *(["actual.implicit_partition"] if organized.implicit_partition_by else []),
    ]
    by = f"partition by {', '.join(groups)} " if groups else ""
    before = (
        f"max(actual.upper) over ({by}order by actual.lower, actual.file"
        " rows between unbounded preceding and 1 preceding)"
    )
    return f"coalesce(actual.lower <= {before}, false)"


def _texts(organized: Organized, table: str = "") -> list[str]:
    """Return SQL expressions for the values of the statistics as text."""
    texts = []
    if organized.implicit_partition_by:
        texts.append(f"cast({table}implicit_partition as string) as implicit_partition")
    if organized.range_by:
        value = sql.name(organized.range_by)
        texts += [f"cast({table}{end}.{value} as string) as {end}" for end in ("lower", "upper")]
        texts.append(f"{table}nulls as nulls")
    return texts


def _files(
    warehouse: Warehouse, organized: Organized, actual: str, columns: Sequence[str], compared: Sequence[str]
) -> list[FileStats]:
    """Return the files that a query describes, with columns from the query and from the stored statistics."""
    columns = ["actual.file", "actual.bytes", "actual.rows", *columns]
    stored = f"{organized.folder}/*"
    try:
        # An entry is a directory that a write created, or the file that a repair created.
        is_there = bool(warehouse.rows(f"select 1 from binaryFile.{sql.name(stored)} limit 1"))  # noqa: S608
    except SparkError as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        is_there = False
    if is_there:
        columns += ["saved.file is not null as covered", *compared]
        actual = f"({actual}) as actual left join (select distinct * from parquet.{sql.name(stored)}) as saved on {_SAME_FILE}"  # noqa: E501, S608
    else:
        columns, actual = [*columns, "false as covered"], f"({actual}) as actual"
    states: dict[bool, FileState] = {True: "covered", False: "wrong"}
    files = [
        FileStats(
            name=unquote(row["file"]),
            size=int(row["bytes"]),
            rows=int(row["rows"]),
            state=states[bool(row.get("same", True))] if row["covered"] else "not-covered",
            overlaps=bool(row.get("overlaps")),
            **{key: row.get(key) for key in ("implicit_partition", "lower", "upper", "nulls")},
        )
        for row in warehouse.rows(f"select {', '.join(columns)} from {actual}")  # noqa: S608
    ]
    return sorted(files, key=lambda file: file.name)
