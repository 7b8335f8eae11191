"""The Python API: the functions behind the commands; see docs/reference/python-api.md.

The functions take a session of PySpark, classic or of Spark Connect, or a target of a dbt project. They restore the
working directory and the session's settings. A function imports its modules when it is called.
"""

from __future__ import annotations

import html
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TextIO, TypeVar, Union

from spark_bucketing.errors import CLEAN, COULD_NOT_RUN, FINDINGS, ProjectError, SparkError, State, exit_code

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_bucketing.advice.advice import Advice
    from spark_bucketing.checks.project import CheckRequest
    from spark_bucketing.checks.results import FailOn, Report
    from spark_bucketing.project.profile import Place
    from spark_bucketing.session import SessionStatements
    from spark_bucketing.tables.metadata import Partition
    from spark_bucketing.tables.overview import Overview
    from spark_bucketing.tables.warehouse import Warehouse

AnyPath = Union[str, "os.PathLike[str]"]
Content = TypeVar("Content")
_STATES: dict[int, State] = {CLEAN: "ok", FINDINGS: "wrong", COULD_NOT_RUN: "unknown"}


@dataclass(frozen=True, repr=False)
class Result(Generic[Content]):
    """What a function found. `print()` shows it as text, and notebooks show it as HTML."""

    content: Content  # the objects of the report
    exit_code: int  # of the command
    write: Callable[[str, TextIO], None]  # writes the report in a format of the command, such as text or json
    has_page: bool = False  # whether the command has the format html

    @property
    def state(self) -> State:
        """Return `ok`, `wrong` if there are findings, or `unknown` if something could not be checked."""
        return _STATES[self.exit_code]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the command's JSON report."""
        data: dict[str, Any] = json.loads(self._text("json"))
        return data

    def __str__(self) -> str:
        return self._text("text")

    def _repr_html_(self) -> str:
        if not self.has_page:
            return f"<pre>{html.escape(str(self))}</pre>"
        # The styles and scripts of a page must not affect the notebook.
        page = html.escape(self._text("html"))
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'

    def _text(self, form: str) -> str:
        file = io.StringIO()
        self.write(form, file)
        return file.getvalue()


def check(
    sql: str | None = None,
    spark: SparkSession | None = None,
    *,
    files: Sequence[AnyPath] = (),
    project_dir: AnyPath | None = None,
    profiles_dir: AnyPath | None = None,
    target: str | None = None,
    select: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    state: AnyPath | None = None,
    variables: str = "{}",
    manifest: AnyPath | None = None,
    compile_anyway: bool = False,
    offline: bool = False,
    extension: bool | None = None,
    baseline: AnyPath | None = None,
    time_limit: float | None = None,
    fail_on: FailOn = "warning",
    on_progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Result[Report]:
    """Find where and why Spark shuffles or sorts bucketed tables, in a query or in the models of a dbt project.

    The arguments without a description are those of the command, and docs/reference/python-api.md describes all.

    Args:
        sql: a query to check in the session, instead of a project.
        spark: the session. By default, a query uses the session of this process, and a project its target.
        time_limit: the limit for planning one query, in seconds; by default no limit.
        fail_on: the lowest level of findings with which the state is `wrong`.
        on_progress: callback that receives the current step, the number of finished models, and of all models.

    Raises:
        BucketingError: the check cannot run.
    """
    from spark_bucketing.checks import project, results
    from spark_bucketing.checks.report import write_report
    from spark_bucketing.project.dbt import Selection
    from spark_bucketing.session import settings_kept

    if sql is None:
        request = _request(
            spark, project_dir, profiles_dir, target, manifest, variables=variables, offline=offline,
            extension=extension, time_limit=time_limit, compile_anyway=compile_anyway, baseline=_path(baseline),
            selection=Selection(_words(select), _words(exclude), _path(state)),
            files=tuple(Path(file).absolute() for file in files),
        )  # fmt: skip
        with settings_kept(spark):
            report = project.check_project(request, on_progress)
    elif files or select or exclude or project_dir is not None:
        raise ProjectError(
            "The argument `sql` cannot be combined with arguments that select models.",
            expected="a query and a session, or a dbt project",
            instead="check(sql=..., spark=spark), or check(project_dir=..., select=...)",
        )
    else:
        with _statements(spark) as statements:
            report = project.check_queries(statements, {"query": sql}, time_limit)
    return Result(report, results.exit_code(report, fail_on), partial(write_report, report), has_page=True)


def advise(
    project_dir: AnyPath | None = None,
    spark: SparkSession | None = None,
    *,
    profiles_dir: AnyPath | None = None,
    target: str | None = None,
    variables: str = "{}",
    manifest: AnyPath | None = None,
    offline: bool = False,
    extension: bool | None = None,
    time_limit: float | None = None,
    sizes: AnyPath | None = None,
    runs: AnyPath | None = None,
    event_logs: Sequence[str] = (),
    on_progress: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> Result[Advice]:
    """Propose bucket columns and numbers of buckets for the models of a dbt project.

    The arguments without a description are those of the command, and docs/reference/python-api.md describes all.

    Args:
        spark: the session to plan in, instead of the target's.
        on_progress: callback that receives a description of the current step.
        options: sizes in bytes `assume_size`, `target_file_size`, `smallest` and `max_rewrite`; `profile`, whether to
            sample column values; `explain`, the name of a table; `apply`, whether to edit the configs.

    Raises:
        BucketingError: the project cannot be planned.
    """
    from spark_bucketing.advice.advisor import advise_project
    from spark_bucketing.advice.report import write_html, write_json, write_text
    from spark_bucketing.advice.subjects import AdviseRequest
    from spark_bucketing.session import settings_kept

    planned = _request(
        spark, project_dir, profiles_dir, target, manifest, variables=variables, offline=offline, extension=extension,
        time_limit=time_limit,
    )  # fmt: skip
    request = AdviseRequest(planned, sizes=_path(sizes), runs=_path(runs), event_logs=tuple(event_logs), **options)
    with settings_kept(spark):
        advice = advise_project(request, on_progress)
    writers = {"text": write_text, "json": write_json, "html": write_html}
    code = COULD_NOT_RUN if any(one.error for one in advice.proof) else CLEAN
    return Result(advice, code, lambda form, file: writers[form](advice, file), has_page=True)


def table(
    name: str,
    spark: SparkSession | None = None,
    *,
    project_dir: AnyPath | None = None,
    profiles_dir: AnyPath | None = None,
    target: str | None = None,
) -> Table:
    """Return a table, which has the methods show(), verify() and seal().

    A name without a schema is in the session's schema or, without a session, in the schema of the dbt target.
    """
    from spark_bucketing.project.profile import Place

    return Table((name,), Place(_path(project_dir), _path(profiles_dir), target), spark)


@dataclass(frozen=True)
class Table:
    """One or several tables of a session of PySpark, or else of a target of a dbt project.

    Without names, all bucketed and organized tables of the schema.
    """

    names: tuple[str, ...]
    place: Place  # the target, without a session
    spark: SparkSession | None = None
    schema: str | None = None  # by default, the session's or the target's schema
    # Receives a description of the current step.
    on_progress: Callable[[str], None] = field(default_factory=lambda: lambda _: None)
    on_tasks: Callable[[int, int], None] | None = None  # receives the finished tasks and all tasks of a statement

    def show(self) -> Result[list[Overview]]:
        """Read the bucket specs, files, sizes, skew, seals and file statistics of the tables.

        Raises:
            BucketingError: a table does not exist or is not bucketed, or Spark fails.
        """
        from spark_bucketing.tables.overview import read_overviews
        from spark_bucketing.tables.report import write_overviews

        with warehouse_of(self) as (warehouse, schema):
            found = list(read_overviews(warehouse, schema, self.names, self.on_progress))
        code = exit_code({overview.state for overview in found})
        write = partial(write_overviews, schema, found, details=bool(self.names))
        return Result(found, code, write, has_page=True)

    def verify(self, deep: bool = False, where: str | None = None) -> Result[list[Overview]]:
        """Check the tables' file names, seals and file statistics.

        Args:
            deep: whether to also read rows, of unsealed files and of organized tables.
            where: a predicate on the partition columns, which selects the partitions whose rows are read.

        Raises:
            BucketingError: a table does not exist or is not bucketed, or Spark fails.
        """
        from spark_bucketing.tables.overview import read_overviews, verify_table
        from spark_bucketing.tables.report import write_verifications

        found = []
        with warehouse_of(self) as (warehouse, schema):
            for overview in read_overviews(warehouse, schema, self.names, self.on_progress):
                self.on_progress(f"verifying {overview.table.name}")
                found.append(verify_table(warehouse, overview, deep, where))
        code = exit_code({overview.state for overview in found})
        return Result(found, code, partial(write_verifications, schema, found, details=bool(self.names)))

    def seal(self, where: str | None = None, dry_run: bool = False) -> Result[list[Partition]]:
        """Seal the files of the first table that match its bucket spec. This changes no data.

        Args:
            where: a predicate on the partition columns; by default, all partitions.
            dry_run: whether to only report the files.

        Raises:
            BucketingError: the table does not exist, the session lacks the extension, or Spark fails.
        """
        from spark_bucketing.tables.metadata import Status, seal_table
        from spark_bucketing.tables.overview import qualified
        from spark_bucketing.tables.report import write_sealed

        with warehouse_of(self) as (warehouse, schema):
            name = qualified(self.names[0], schema)
            self.on_progress(f"hashing files of {name}")
            found = seal_table(warehouse, name, where, dry_run)
        code = FINDINGS if any(partition.status == Status.REFUSED for partition in found) else CLEAN
        return Result(found, code, partial(write_sealed, name, found, dry_run))


@contextmanager
def warehouse_of(table: Table) -> Iterator[tuple[Warehouse, str]]:
    """Open a table's warehouse and schema inside the block, with the settings that table commands require.

    Raises:
        BucketingError: the warehouse cannot be opened.
    """
    from spark_bucketing.project.profile import opened, read_target, require_cancellation
    from spark_bucketing.session import settings_kept
    from spark_bucketing.tables.warehouse import Warehouse

    target = read_target(table.place) if table.spark is None else None
    if target:
        require_cancellation(target)
    opening = opened(target, table.on_progress, table.on_tasks) if target else _statements(table.spark, table.on_tasks)
    with (
        settings_kept() if target else nullcontext(),
        opening as statements,
        Warehouse(statements.rows).with_needed_settings() as warehouse,
    ):
        schema = target.schema if target else statements.rows("select current_database() as name")[0]["name"]
        yield warehouse, table.schema or str(schema)


@contextmanager
def _statements(
    spark: SparkSession | None, on_tasks: Callable[[int, int], None] | None = None
) -> Iterator[SessionStatements]:
    """Use a session, or the active session of this process."""
    from spark_bucketing.session import SessionStatements, active, quiet_errors

    session = spark or active()
    if session is None:
        raise SparkError(
            "No Spark session is active.", expected="a session of PySpark", instead="pass the session as `spark`"
        )
    with quiet_errors(), closing(SessionStatements(session, on_tasks)) as statements:
        yield statements


def _request(
    spark: SparkSession | None,
    project_dir: AnyPath | None,
    profiles_dir: AnyPath | None,
    target: str | None,
    manifest: AnyPath | None,
    **others: Any,
) -> CheckRequest:
    """Return the request to plan a project, from the arguments that several functions have, and from fields of it."""
    from spark_bucketing.checks.project import CheckRequest
    from spark_bucketing.project.profile import Place

    place = Place(_path(project_dir), _path(profiles_dir), target)
    return CheckRequest(place=place, manifest=_path(manifest), session=spark, **others)


def _path(path: AnyPath | None) -> Path | None:
    return None if path is None else Path(path).absolute()


def _words(names: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(names.split() if isinstance(names, str) else names)
