"""Plan the files of a model for `spark-bucketing files plan`, from the row counts of its partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from spark_bucketing.check.artifacts import Artifacts, Project
from spark_bucketing.config.validation import validated
from spark_bucketing.errors import ProjectError, SparkError
from spark_bucketing.organize.file_counts import SETTINGS, FileCount, files_of_partitions
from spark_bucketing.project.manifest import Manifest, Node, relation_parts
from spark_bucketing.table import sql
from spark_bucketing.table.metadata import describe_table
from spark_bucketing.table.warehouse import Warehouse

# Config keys that determine a table's files.
_PLANNED = (
    *SETTINGS, "partition_by", "implicit_partition_by", "range_by", "range_boundaries_from", "file_strategy",
    "scale_factor",
)  # fmt: skip
# Hive's name for a partition with the value NULL.
_NULL = "__HIVE_DEFAULT_PARTITION__"
OnProgress = Callable[[str], None]


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
class Overrides:
    """The command options that override the model's config."""

    counts: Mapping[str, object]  # values by setting; empty to use the config
    bytes_per_row: Fraction = Fraction(0)  # size of a row on disk; 0 to measure the existing table


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
    project: Project, warehouse: Warehouse, name: str, overrides: Overrides, on_progress: OnProgress
) -> FilePlan:
    """Compile a project, run a model's query to count the rows of its partitions, and plan their files.

    Raises:
        ProjectError: the model does not exist, does not compile, or has no valid setting for the number of files.
        SparkError: the model's query fails.
    """
    on_progress("compiling the project")
    artifacts = project.artifacts()
    node = _model(artifacts, name)
    config = file_config(node.config, overrides.counts, name)
    folders = tuple(config["partition_by"])
    partition_by = (*folders, *config["implicit_partition_by"])
    count = next((FileCount(setting, config[setting]) for setting in SETTINGS if config[setting]), None)
    if count is None:
        raise _error(
            name, "range_boundaries_from", config["range_boundaries_from"],
            "a setting for the number of files, which depends here on the ranges of that table",
            "a command option such as --target-file-size 256MiB, or build the model",
        )  # fmt: skip
    on_progress(f"counting the rows of {name}")
    rows = _rows_of_partitions(warehouse, node, config)
    measured = _measured(warehouse, node)
    bytes_per_row = overrides.bytes_per_row or (measured.bytes_per_row if measured else None)
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
        from_config=not overrides.counts,
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
    given = {key: value for key, value in config.items() if key in _PLANNED and not (counts and key in SETTINGS)}
    return validated({"materialized": "organized_table", **given, **counts}, model)


def _error(model: str, setting: str, found: object, expected: str, instead: str) -> ProjectError:
    return ProjectError(f"Model `{model}` has an invalid `{setting}`.", found=found, expected=expected, instead=instead)


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
