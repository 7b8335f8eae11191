"""Reads, verifies and repairs the file statistics of an organized table; see docs/explanation/file-layout.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from json import loads
from typing import Any
from urllib.parse import unquote

from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.table import sql
from spark_bucketing.table.metadata import existing_table
from spark_bucketing.table.model import Table
from spark_bucketing.table.warehouse import Warehouse

_FOLDER = "_file_statistics"
_TRUTH = "spark_bucketing_file_statistics"
# In an array of the table's properties; they may have commas, which DESCRIBE does not tell from those between properties.  # noqa: E501
_NAMES = re.compile(r"bucketing\.(range_by|implicit_partition_by)=(\[.*?\])(?=, |\]$)")


class State:
    """Whether the statistics cover a file."""

    MAPPED = "mapped"
    NOT_MAPPED = "not-mapped"  # added or replaced by others: queries read it
    WRONG = "wrong"  # the statistics differ from its rows


@dataclass(frozen=True)
class FileStats:
    """A file of the table, by its rows or by the statistics. Values are text."""

    name: str  # with the folders of its partition
    size: int  # bytes
    rows: int
    state: str  # of State
    implicit_partition: str | None = None  # values of the implicit partition columns
    lower: str | None = None  # of the ordering column; None where all are NULL
    upper: str | None = None
    nulls: int | None = None
    overlaps: bool = False  # whether it has values of the range of another file of its partition


@dataclass(frozen=True)
class Organized:
    """An organized table."""

    table: Table
    range_by: str | None
    implicit_partition_by: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Where its statistics are."""
        return f"{self.table.details['Location']}/{_FOLDER}"


def organized_table(warehouse: Warehouse, name: str) -> Organized:
    """What the metastore says of an organized table.

    Raises:
        TableError: there is no such table, or it has no file statistics.
    """
    found = organized_by(existing_table(warehouse, name))
    if found is None:
        raise TableError(
            f"Table {name} has no file statistics. Expected the table of a dbt model with "
            "materialized='organized_table' or 'organized_incremental', and `range_by` or `implicit_partition_by`: "
            "write one of these into its config, and run it."
        )
    return found


def organized_by(table: Table) -> Organized | None:
    """By which columns the metastore says that a table is organized; None where it has no file statistics."""
    found = {key: loads(names) for key, names in _NAMES.findall(table.details.get("Table Properties", ""))}
    if not found:
        return None
    return Organized(table, next(iter(found.get("range_by", [])), None), tuple(found.get("implicit_partition_by", [])))


def read_file_statistics(warehouse: Warehouse, of: Organized) -> list[FileStats]:
    """The files that are there, with their statistics. Opens their ends, and reads no rows."""
    listed = (
        f"select {_tail(of)} as file, max(_metadata.file_size) as bytes, count(*) as rows,"  # noqa: S608
        f" max(_metadata.file_modification_time) as modified from {sql.table(of.table.name)} group by _metadata.file_path"  # noqa: E501
    )
    if not _is_there(warehouse, of):
        rows = warehouse.rows(f"select *, false as mapped from ({listed})")  # noqa: S608
    else:
        rows = warehouse.rows(
            f"select there.file, there.bytes, there.rows, map.file is not null as mapped, {', '.join(_texts(of, 'map.'))}"  # noqa: E501, S608
            f" from ({listed}) as there left join (select distinct * from {_map(of)}) as map"
            " on there.file = map.file and there.bytes = map.bytes and there.modified = map.modified"
        )
    files = [_file(row, State.MAPPED if row["mapped"] else State.NOT_MAPPED) for row in rows]
    return sorted(files, key=lambda file: file.name)


def verify_file_statistics(warehouse: Warehouse, of: Organized) -> list[FileStats]:
    """The files that are there, each with what its rows say, compared with the statistics. Reads all rows once."""
    truth = _truth(of)
    compared = [
        *(["lower", "upper", "nulls"] if of.range_by else []),
        *(["implicit_partition"] if of.implicit_partition_by else []),
    ]
    if not _is_there(warehouse, of):
        rows = warehouse.rows(
            f"select {', '.join(['file', 'bytes', 'rows', *_texts(of)])}, false as mapped from ({truth})"  # noqa: S608
        )
    else:
        same = " and ".join(f"there.{name} <=> map.{name}" for name in [*compared, "rows", "checksum"])
        columns = ["there.file", "there.bytes", "there.rows", "map.file is not null as mapped", f"{same} as same"]
        columns += _texts(of, "there.")
        overlap = f"{_follows(of)} as overlaps" if of.range_by else "false as overlaps"
        rows = warehouse.rows(
            f"select {', '.join(columns)}, {overlap} from ({truth}) as there"  # noqa: S608
            f" left join (select distinct * from {_map(of)}) as map"
            " on there.file = map.file and there.bytes = map.bytes and there.modified = map.modified"
        )
    return sorted((_file(row, _state(row)) for row in rows), key=lambda file: file.name)


def repair_file_statistics(warehouse: Warehouse, of: Organized) -> int:
    """Read all rows, and rewrite all statistics; returns how many files they cover.

    One part replaces all others once the rows have been read. Where that is interrupted, there are no statistics, and
    queries read all files.
    """
    warehouse.rows(f"cache table {_TRUTH} as {_truth(of)}")
    try:
        folder = sql.text(of.folder)
        warehouse.rows(
            f"insert overwrite directory {folder} using parquet select /*+ coalesce(1) */ * from {_TRUTH}"  # noqa: S608
        )
        return int(warehouse.rows(f"select count(*) as files from {_TRUTH}")[0]["files"])  # noqa: S608
    finally:
        warehouse.rows(f"drop view if exists {_TRUTH}")


def _is_there(warehouse: Warehouse, of: Organized) -> bool:
    """Whether there are statistics: a folder for each write, and the file of a repair."""
    try:
        return bool(warehouse.rows(f"select 1 from binaryFile.{sql.name(f'{of.folder}/*')} limit 1"))  # noqa: S608
    except SparkError as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise


def _map(of: Organized) -> str:
    return f"parquet.{sql.name(f'{of.folder}/*')}"


def _tail(of: Organized) -> str:
    return f"substring_index(_metadata.file_path, '/', {-1 - len(of.table.columns)})"


def _truth(of: Organized) -> str:
    """What the statistics have to be: the macro file_statistics_sql() has the same query."""
    partition = [column.name for column in of.table.columns]
    groups = [("partition", partition), ("implicit_partition", list(of.implicit_partition_by))]
    columns = [
        f"{_tail(of)} as file",
        "max(_metadata.file_size) as bytes",
        "max(_metadata.file_modification_time) as modified",
        *(f"struct({', '.join(map(sql.name, names))}) as {alias}" for alias, names in groups if names),
    ]
    if of.range_by:
        value = sql.name(of.range_by)
        columns += [
            f"struct(min({value}) as {value}) as lower",
            f"struct(max({value}) as {value}) as upper",
            f"count(*) - count({value}) as nulls",
        ]
    hashed = (
        f"cast({sql.name(column.name)} as string)"
        if re.search("map<|variant", column.type.lower())
        else sql.name(column.name)
        for column in of.table.all_columns
    )
    columns += ["count(*) as rows", f"sum(cast(xxhash64({', '.join(hashed)}) as decimal(38, 0))) as checksum"]
    by = ", ".join(["_metadata.file_path", *map(sql.name, [*partition, *of.implicit_partition_by])])
    return f"select {', '.join(columns)} from {sql.table(of.table.name)} group by {by}"  # noqa: S608


def _follows(of: Organized) -> str:
    """SQL for whether a file begins before all files of smaller beginnings have ended."""
    groups = [
        *(["there.partition"] if of.table.columns else []),
        *(["there.implicit_partition"] if of.implicit_partition_by else []),
    ]
    by = f"partition by {', '.join(groups)} " if groups else ""
    before = (
        f"max(there.upper) over ({by}order by there.lower, there.file rows between unbounded preceding and 1 preceding)"
    )
    return f"coalesce(there.lower <= {before}, false)"


def _texts(of: Organized, table: str = "") -> list[str]:
    """Values of the statistics as text."""
    texts = []
    if of.implicit_partition_by:
        texts.append(f"cast({table}implicit_partition as string) as implicit_partition")
    if of.range_by:
        value = sql.name(of.range_by)
        texts += [f"cast({table}{end}.{value} as string) as {end}" for end in ("lower", "upper")]
        texts.append(f"{table}nulls as nulls")
    return texts


def _state(row: dict[str, Any]) -> str:
    if not row["mapped"]:
        return State.NOT_MAPPED
    return State.MAPPED if row["same"] else State.WRONG


def _file(row: dict[str, Any], state: str) -> FileStats:
    return FileStats(
        name=unquote(row["file"]),
        size=int(row["bytes"]),
        rows=int(row["rows"]),
        state=state,
        implicit_partition=row.get("implicit_partition"),
        lower=row.get("lower"),
        upper=row.get("upper"),
        nulls=row.get("nulls"),
        overlaps=bool(row.get("overlaps")),
    )
