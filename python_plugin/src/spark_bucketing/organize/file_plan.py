"""Plan the files of a model for `spark-bucketing files plan`, from the row counts of its partitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from spark_bucketing.check.artifacts import Artifacts, Project
from spark_bucketing.config.schema import FILE_COUNTS
from spark_bucketing.config.validation import validated
from spark_bucketing.errors import ProjectError, SparkError
from spark_bucketing.project.manifest import Manifest, Node, relation_parts
from spark_bucketing.table import sql
from spark_bucketing.table.metadata import describe_table
from spark_bucketing.table.warehouse import Warehouse

# Config keys that determine a table's files.
_PLANNED = (
    *FILE_COUNTS, "partition_by", "implicit_partition_by", "range_by", "range_boundaries_from", "file_strategy",
    "scale_factor",
)  # fmt: skip
# Hive's name for a partition with the value NULL.
_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class FileCount:
    """A setting that determines how many files a table has."""

    setting: str  # name of the setting, from FILE_COUNTS
    value: int  # number of rows, bytes or files

    def rows_per_file(self, bytes_per_row: Fraction | None = None) -> int | None:
        """Return the number of rows per file, or None if the setting is a number of files.

        Args:
            bytes_per_row: size of a row on disk in bytes. It is required if `target_file_size` is set.

        Raises:
            ValueError: `target_file_size` is set, and the bytes per row are unknown.
        """
        if self.setting == "rows_per_file":
            return self.value
        if self.setting != "target_file_size":
            return None
        if not bytes_per_row:
            raise ValueError("target_file_size requires the bytes per row, which are unknown")
        return max(int(self.value / bytes_per_row), 1)


@dataclass(frozen=True)
class Measured:
    """The numbers of rows and bytes in the existing files."""

    rows: int
    bytes: int

    @property
    def bytes_per_row(self) -> Fraction:
        """Return the mean number of bytes per row."""
        return Fraction(self.bytes, self.rows)


@dataclass(frozen=True)
class PlannedPartition:
    """A partition, with its number of rows and its planned number of files."""

    values: tuple[str | None, ...]
    rows: int
    files: int


@dataclass(frozen=True)
class FilePlan:
    """The planned files of a model's table."""

    model: str
    strategy: str
    count: FileCount
    from_config: bool  # whether the setting comes from the model's config
    partition_by: tuple[str, ...]
    partitions: tuple[PlannedPartition, ...]
    rows_per_file: int | None  # number of rows per file; None if the setting is a number of files
    bytes_per_row: Fraction | None  # size of a row on disk; None if unknown
    measured: Measured | None  # measurements of the existing table; None if it cannot be measured

    @property
    def files(self) -> int:
        """Return the total number of files in all partitions."""
        return sum(partition.files for partition in self.partitions)

    @property
    def rows(self) -> int:
        """Return the total number of rows in all partitions."""
        return sum(partition.rows for partition in self.partitions)


def plan_model(
    project: Project,
    warehouse: Warehouse,
    name: str,
    counts: Mapping[str, object],
    bytes_per_row: Fraction | None,
    on_progress: Callable[[str], None],
) -> FilePlan:
    """Compile a project, run a model's query to count the rows of its partitions, and plan their files.

    Args:
        project: the project.
        warehouse: a warehouse with an open session.
        name: name or unique id of the model.
        counts: settings for the number of files, which override the model's config; empty to use the config.
        bytes_per_row: size of a row on disk in bytes, or None to measure the existing table.
        on_progress: callback that receives a description of the current step.

    Raises:
        ProjectError: the model does not exist, does not compile, or has no valid setting for the number of files.
        SparkError: the model's query fails.
    """
    on_progress("compiling the project")
    artifacts = project.artifacts()
    node = _model(artifacts, name)
    config = file_config(node.config, counts, name)
    folders = tuple(config["partition_by"])
    partition_by = (*folders, *config["implicit_partition_by"])
    count = _file_count(config, name)
    on_progress(f"counting the rows of {name}")
    rows = _rows_of_partitions(warehouse, node, config)
    measured = _measured(warehouse, node)
    bytes_per_row = bytes_per_row or (measured.bytes_per_row if measured else None)
    if count.setting == "target_file_size" and not bytes_per_row:
        raise ProjectError(
            f"The files of model `{name}` cannot be planned.",
            found=f"target_file_size, but no table {node.relation} to measure the bytes per row",
            expected="an existing Parquet or ORC table, or the number of bytes per row",
            instead="--bytes-per-row 40; the first `dbt run` measures a sample that it writes",
        )
    # NULLs in the range column get a separate file.
    valued = files_of_partitions(count, [one.rows - one.nulls for one in rows], bytes_per_row)
    files = [number + (one.nulls > 0) for number, one in zip(valued, rows, strict=True)]
    return FilePlan(
        model=name,
        strategy=config["file_strategy"],
        count=count,
        from_config=not counts,
        partition_by=partition_by,
        partitions=tuple(
            PlannedPartition(one.values, one.rows, number) for one, number in zip(rows, files, strict=True)
        ),
        rows_per_file=count.rows_per_file(bytes_per_row),
        bytes_per_row=bytes_per_row,
        measured=measured,
    )


def file_config(config: Mapping[str, Any], counts: Mapping[str, object], model: str) -> dict[str, Any]:
    """Return the config that determines how many files a model has, whatever its materialization.

    Args:
        config: config of the model.
        counts: settings for the number of files. These settings override the settings in `config`.
        model: name of the model, for errors.

    Raises:
        ProjectError: the config has no setting for the number of files, several settings, or an invalid value.
    """
    given = {key: value for key, value in config.items() if key in _PLANNED and not (counts and key in FILE_COUNTS)}
    return validated({"materialized": "organized_table", **given, **counts}, model)


def files_of_partitions(count: FileCount, rows: Sequence[int], bytes_per_row: Fraction | None = None) -> list[int]:
    """Return the number of files for each partition, as the macro files_of_partition does in SQL.

    A partition has at least one file, and at most one per row.

    Args:
        count: the setting that determines the number of files.
        rows: number of rows in each partition.
        bytes_per_row: size of a row on disk in bytes. It is required if `target_file_size` is set.
    """
    per_file, total = count.rows_per_file(bytes_per_row), sum(rows)
    return [min(each, max(1, _wanted(count, each, per_file, total))) for each in rows]


def _wanted(count: FileCount, rows: int, per_file: int | None, total: int) -> int:
    if per_file:
        return -(-rows // per_file)
    # Round half up, as SQL does.
    return (
        math.floor(Fraction(count.value * rows, max(total, 1)) + Fraction(1, 2))
        if count.setting == "num_files"
        else count.value
    )


def _file_count(config: Mapping[str, Any], model: str) -> FileCount:
    for setting in FILE_COUNTS:
        if config[setting]:
            return FileCount(setting, config[setting])
    raise ProjectError(
        f"Model `{model}` has an invalid `range_boundaries_from`.",
        found=config["range_boundaries_from"],
        expected="a setting for the number of files, which depends here on the ranges of that table",
        instead="a command option such as --target-file-size 256MiB, or build the model",
    )


def _model(artifacts: Artifacts, name: str) -> Node:
    manifest: Manifest = artifacts.manifest
    models = [node for node in manifest.nodes.values() if node.resource_type == "model"]
    found = next((node for node in models if name in (node.name, node.unique_id)), None)
    if found is None:
        names = ", ".join(sorted(node.name for node in models)[:10]) or "none"
        raise ProjectError(
            f"The project has no model `{name}`.",
            expected=f"one of the models {names}",
            instead="choose one of these names",
        )
    if found.sql is None:
        raise ProjectError(
            f"Model `{name}` has no compiled SQL.",
            found=artifacts.errors.get(found.unique_id),
            expected="a model that dbt can compile",
            instead="correct the model",
        )
    return found


class _Rows(NamedTuple):
    """The number of rows in a partition, and the number of these rows that have NULL in the range column."""

    values: tuple[str | None, ...]
    rows: int
    nulls: int


def _rows_of_partitions(warehouse: Warehouse, node: Node, config: Mapping[str, Any]) -> list[_Rows]:
    folders, partition_by = len(config["partition_by"]), [*config["partition_by"], *config["implicit_partition_by"]]
    query = f"select * from (\n{str(node.sql).rstrip().rstrip(';')}\n)"  # noqa: S608
    values = [f"cast({sql.name(name)} as string)" for name in partition_by]
    # Hive stores rows with an empty string in the same directory as rows with NULL.
    values[:folders] = [f"nullif(nullif({value}, ''), {sql.text(_NULL)})" for value in values[:folders]]
    names = [f"p{number}" for number in range(len(values))]
    select = ", ".join([*names, "count(*) as n", "count(v) as valued"])
    ordering = next(map(sql.name, config["range_by"]), "1")
    columns = ", ".join(f"{value} as {name}" for value, name in [*zip(values, names, strict=True), (ordering, "v")])
    inner = f"select {columns} from ({query})"  # noqa: S608
    by = f" group by {', '.join(names)} order by {', '.join(names)}" if names else " having count(*) > 0"
    found = warehouse.rows(f"select {select} from ({inner}){by}")  # noqa: S608
    return [
        _Rows(tuple(row[name] for name in names), int(row["n"]), int(row["n"]) - int(row["valued"])) for row in found
    ]


def _measured(warehouse: Warehouse, node: Node) -> Measured | None:
    """Count the rows and bytes of the existing table, using the column _metadata.

    Return None if the table has no such column. Only Parquet and ORC tables have it.
    """
    parts = relation_parts(node.relation or "")
    if not parts:
        return None
    name = ".".join(map(sql.name, parts[-2:]))
    if describe_table(warehouse, name) is None:
        return None
    by_file = f"select count(*) as n, max(_metadata.file_size) as b from {name} group by _metadata.file_path"  # noqa: S608
    try:
        row = warehouse.rows(f"select sum(n) as n, sum(b) as b from ({by_file})")[0]  # noqa: S608
    # Views and other formats have no _metadata.
    except SparkError:
        return None
    return Measured(int(row["n"]), int(row["b"])) if row["n"] and row["b"] else None
