"""Show how many files each partition of a model gets: python benchmarks/file_plan.py MODEL."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import click
from rich.console import Console
from rich.text import Text

from spark_bucketing import sql
from spark_bucketing.checks.project import Artifacts, CheckRequest, Project, in_folder
from spark_bucketing.cli.options import FORMAT, MANIFEST, SOME, VARIABLES, integer_of, project_options, standard_output
from spark_bucketing.cli.progress import progress_line
from spark_bucketing.config.schema import FILE_COUNTS
from spark_bucketing.config.validation import validated
from spark_bucketing.errors import COULD_NOT_RUN, BucketingError, ProjectError, SparkError
from spark_bucketing.output import console_on, print_rows, write_json
from spark_bucketing.project.manifest import Manifest, Node, relation_parts
from spark_bucketing.project.profile import Place, opened, read_target
from spark_bucketing.tables.metadata import describe_table
from spark_bucketing.tables.warehouse import Warehouse
from spark_bucketing.units import count, size

_MOST_PARTITIONS = 20
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
    on_progress: Callable[[str], None] = lambda _: None,
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
        instead="an option such as --target-file-size 256MiB, or build the model",
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
    query = f"select * from (\n{str(node.sql).rstrip().rstrip(';')}\n)"
    values = [f"cast({sql.name(name)} as string)" for name in partition_by]
    # Hive stores rows with an empty string in the same directory as rows with NULL.
    values[:folders] = [f"nullif(nullif({value}, ''), {sql.text(_NULL)})" for value in values[:folders]]
    names = [f"p{number}" for number in range(len(values))]
    select = ", ".join([*names, "count(*) as n", "count(v) as valued"])
    ordering = next(map(sql.name, config["range_by"]), "1")
    columns = ", ".join(f"{value} as {name}" for value, name in [*zip(values, names, strict=True), (ordering, "v")])
    inner = f"select {columns} from ({query})"
    by = f" group by {', '.join(names)} order by {', '.join(names)}" if names else " having count(*) > 0"
    found = warehouse.rows(f"select {select} from ({inner}){by}")
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
    by_file = f"select count(*) as n, max(_metadata.file_size) as b from {name} group by _metadata.file_path"
    try:
        row = warehouse.rows(f"select sum(n) as n, sum(b) as b from ({by_file})")[0]
    # Views and other formats have no _metadata.
    except SparkError:
        return None
    return Measured(int(row["n"]), int(row["b"])) if row["n"] and row["b"] else None


def write_plan(plan: FilePlan, form: str, file: TextIO) -> None:
    """Write how many files each partition of a model gets, and how this number was determined."""
    if form == "json":
        write_json(_plan_data(plan), file)
        return
    console = console_on(file)
    total = f", about {size(round(plan.rows * plan.bytes_per_row))}" if plan.bytes_per_row else ""
    where = f" in {count(len(plan.partitions), 'partition')}" if plan.partition_by else ""
    console.print(Text(f"{plan.model}: {count(plan.files, 'file')} for {count(plan.rows, 'row')}{where}{total}"))
    for reason in _reasons(plan):
        console.print(Text(f"  {reason}"))
    if plan.partition_by and plan.partitions:
        _print_partitions(console, plan)
        if len(plan.partitions) > _MOST_PARTITIONS:
            left = count(len(plan.partitions) - _MOST_PARTITIONS, "smaller partition")
            console.print(Text(f"and {left} (--format json shows all)"))


def _reasons(plan: FilePlan) -> Iterator[str]:
    asked = "set in the model's config" if plan.from_config else "set by an option"
    value = size(plan.count.value) if plan.count.setting == "target_file_size" else f"{plan.count.value:,}"
    yield f"{plan.count.setting} = {value}, {asked}; file_strategy = {plan.strategy}"
    if plan.bytes_per_row:
        source = "from --bytes-per-row"
        if plan.measured and plan.measured.bytes_per_row == plan.bytes_per_row:
            source = f"measured in the existing table: {size(plan.measured.bytes)}, {count(plan.measured.rows, 'row')}"
        yield f"bytes per row: {float(plan.bytes_per_row):.4g}, {source}"
    else:
        yield "sizes are unknown because the table does not exist yet; pass --bytes-per-row to show them"
    if plan.rows_per_file:
        yield f"rows per file: {plan.rows_per_file:,}"
    if plan.strategy not in ("exact", "by_column_salted"):
        yield f"{plan.strategy} uses this number of tasks, but can write more or fewer files"


def _print_partitions(console: Console, plan: FilePlan) -> None:
    titles = ("rows", "files", "rows per file", *(["size per file"] if plan.bytes_per_row else []))
    largest = sorted(plan.partitions, key=lambda one: -one.rows)[:_MOST_PARTITIONS]
    print_rows(console, [", ".join(plan.partition_by), *titles], [_cells(plan, one) for one in largest], titles)


def _cells(plan: FilePlan, one: PlannedPartition) -> list[str]:
    rows = -(-one.rows // one.files)
    cells = [
        ", ".join("null" if value is None else value for value in one.values),
        f"{one.rows:,}",
        f"{one.files:,}",
        f"{rows:,}",
    ]
    return [*cells, size(round(rows * plan.bytes_per_row))] if plan.bytes_per_row else cells


def _plan_data(plan: FilePlan) -> dict[str, Any]:
    def size(rows: int) -> int | None:
        return round(rows * plan.bytes_per_row) if plan.bytes_per_row else None

    return {
        "model": plan.model,
        "strategy": plan.strategy,
        "setting": plan.count.setting,
        "value": plan.count.value,
        "from_config": plan.from_config,
        "rows_per_file": plan.rows_per_file,
        "bytes_per_row": float(plan.bytes_per_row) if plan.bytes_per_row else None,
        "measured": {"rows": plan.measured.rows, "bytes": plan.measured.bytes} if plan.measured else None,
        "files": plan.files,
        "rows": plan.rows,
        "bytes": size(plan.rows),
        "partitions": [
            {
                "values": dict(zip(plan.partition_by, one.values, strict=True)),
                "rows": one.rows,
                "files": one.files,
                "largest_file_rows": -(-one.rows // one.files),
                "largest_file_bytes": size(-(-one.rows // one.files)),
            }
            for one in plan.partitions
        ],
    }


@click.command()
@click.argument("model")
@click.option(
    "--rows-per-file", type=integer_of("rows_per_file"), help="Rows per file, instead of the value in the config."
)
@click.option(
    "--target-file-size", type=SOME, help="Target file size, such as 256MiB, instead of the value in the config."
)
@click.option(
    "--num-files", type=integer_of("num_files"), help="Files in the whole table, instead of the value in the config."
)
@click.option(
    "--files-per-partition",
    type=integer_of("files_per_partition"),
    help="Files per partition, instead of the value in the config.",
)
@click.option(
    "--bytes-per-row",
    type=click.FloatRange(min=0, min_open=True),
    help="Size of a row on disk, in bytes; by default, the command measures it in the existing table.",
)
@FORMAT
@project_options
@VARIABLES
@MANIFEST
def plan(
    model: str,
    bytes_per_row: float | None,
    form: str,
    place: Place,
    variables: str,
    manifest: Path | None,
    **counts: int | None,
) -> None:
    """Show how many files each partition of MODEL gets, and why.

    Compiles the project, and runs the model's query to count the rows of each partition. Writes nothing. Options
    override the keys in the model's config. By setting them, you can plan the files of a model with any
    materialization.
    """
    stated = {key: value for key, value in counts.items() if value is not None}
    per_row = Fraction(bytes_per_row) if bytes_per_row else None
    try:
        target = read_target(place, variables)
        project = Project(target, CheckRequest(place=place, variables=variables, manifest=manifest))
        with progress_line() as line, in_folder(target.project_dir), opened(target, line.show) as statements:
            found = plan_model(project, Warehouse(statements.rows), model, stated, per_row, line.show)
    except BucketingError as error:
        click.echo(f"Error: {error}", err=True)
        click.get_current_context().exit(COULD_NOT_RUN)
    write_plan(found, form, standard_output(form))


if __name__ == "__main__":
    plan()
