"""Copy the showcase, edit the model in the copy, run it, and query its table."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steps import KEYS, Step, month_name

from spark_bucketing.errors import ProjectError, TableError
from spark_bucketing.extension.build import build_jar
from spark_bucketing.extension.settings import extension_settings
from spark_bucketing.output import console_on
from spark_bucketing.plan.document import PhysicalPlan, PlanNode
from spark_bucketing.plan.planner import Planner
from spark_bucketing.project.profile import Place, read_target
from spark_bucketing.session import SessionStatements, open_session, rows_of, spark_call
from spark_bucketing.sql import with_settings
from spark_bucketing.tables.metadata import read_table
from spark_bucketing.tables.overview import merging_of
from spark_bucketing.tables.report import print_specs
from spark_bucketing.tables.warehouse import Warehouse
from spark_bucketing.units import count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
SCHEMA = "nycflights13"
NAME = "flights_by_month"
MODEL = Path("models", "marts", f"{NAME}.sql")
TABLE = f"{SCHEMA}.{NAME}"
# This condition replaces the model's own condition. The command line names the months to write.
CONDITION = """where flight_month in ('{{ var("months") | join("', '") }}')"""
Rows = Counter[tuple[Any, ...]]


class WrongRowsError(Exception):
    """A query over the table returned different rows from the same query over the CSV files."""


@dataclass(frozen=True)
class Answer:
    """The distinct rows of a query's result, with the number of times that each occurs, and its plan."""

    rows: Rows
    plan: PhysicalPlan

    @property
    def shuffles_and_sorts(self) -> str:
        """Return the numbers of Exchanges and Sorts as text."""
        return f"{self.plan.counts.exchanges} Exchange, {self.plan.counts.sorts} Sort"


def ask(spark: SparkSession, query: str, extension: bool) -> Answer:
    """Run a query, either with the extension or on stock Spark.

    Raises:
        SparkError: the query fails.
    """
    enabled = {"spark.bucketing.enabled": str(extension).lower()}
    with with_settings(partial(rows_of, spark), enabled), spark_call(""):
        rows = Counter(map(tuple, spark.sql(query).collect()))
        return Answer(rows, Planner("", partial(rows_of, spark)).plan(query))


def difference(found: Rows, expected: Rows) -> str:
    """Describe how many rows are extra or missing, and show an example of each."""
    parts = ((found - expected, "too many"), (expected - found, "missing"))
    return "; ".join(f"{count(rows.total(), 'row')} {what}, such as {next(iter(rows))}" for rows, what in parts if rows)


def plan_lines(node: PlanNode) -> Iterator[str]:
    """Yield the joins, aggregates, Exchanges, Sorts and scans of a plan, one per line.

    The line of a scan includes whether it uses the table's buckets.
    """
    line = None
    if node.scan:
        line = f"Scan {node.table}"
        if node.scan.bucketed:
            line += f", Bucketed: true ({node.scan.read})"
        elif node.scan.code:
            line += f", Bucketed: false [{node.scan.code}] ({node.scan.words})"
    elif node.shuffle:
        line = f"Exchange {node.shuffle.text.removesuffix(', ENSURE_REQUIREMENTS')}"
    elif node.sort or node.join or node.aggregate:
        line = node.operator
    if line:
        yield line
    for child in node.children:
        for below in plan_lines(child):
            yield f"  {below}" if line else below


def copy_showcase(folder: Path) -> Path:
    """Copy the showcase to an empty directory, and return the path of the copy."""
    project = folder / "project"
    if folder.exists():
        shutil.rmtree(folder)
    # profiles.yml and the models' sources read this variable.
    os.environ["SPARK_BUCKETING_DEMO"] = str(folder)
    subprocess.run([sys.executable, str(ROOT / "scripts" / "get_data.py")], check=True)
    for name in ("macros", "models"):
        shutil.copytree(ROOT / name, project / name)
    for name in ("dbt_project.yml", "profiles.yml"):
        shutil.copy(ROOT / name, project)
    return project


def open_spark(project: Path, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start a Spark session with the extension for a copy of the showcase.

    dbt uses the same session.
    """
    # The profile contains paths relative to the repository.
    os.chdir(ROOT)
    profile = read_target(Place(project, project))
    return open_session({**profile.settings, **extension_settings(build_jar()), **(settings or {})})


def run_dbt(folder: Path, *arguments: str, says: Callable[[Any], None] = lambda _: None) -> None:
    """Run dbt in the copy of the showcase in this directory.

    Raises:
        ProjectError: dbt failed.
    """
    from dbt.cli.main import dbtRunner

    places = ("--project-dir", str(folder / "project"), "--profiles-dir", str(folder / "project"))
    logs = ("--log-path", str(folder / "logs"), "--quiet", "--no-use-colors")
    outcome = dbtRunner(callbacks=[says]).invoke([*arguments, *places, *logs])
    if not outcome.success:
        raise ProjectError(f"dbt {arguments[0]} failed. {outcome.exception or ''}".rstrip())


class Showcase:
    """A copy of the showcase with its own Spark and its own metastore.

    Args:
        folder: the directory for the copy, whose existing contents are deleted.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.project = folder, copy_showcase(folder)
        self.months: set[int] = set()
        # Without this setting, the extension would coalesce these buckets, which are smaller than in a real table.
        self.spark = open_spark(self.project, {"spark.bucketing.read.partitionBytes": "0"})

    def run(self, step: Step) -> None:
        """Edit the model as the step says, and run `dbt run`.

        Raises:
            ProjectError: the run failed.
        """
        (self.project / MODEL).write_text(edited((ROOT / MODEL).read_text(), step.config))
        models = [NAME] if self.months else [f"+{NAME}", "+planes"]
        variables = json.dumps({"months": [month_name(month) for month in step.months]})
        print(f"{MODEL.name}: {', '.join(f'{key}={value!r}' for key, value in step.config.items())}")
        print(f"dbt run --select {' '.join(models)} --vars '{variables}'")
        run_dbt(self.folder, "run", "--select", *models, "--vars", variables, says=_print_macro_logs)
        if not self.months:
            # Read the view over the CSV files once for all comparisons.
            self.spark.table(f"{SCHEMA}.stg_flights").localCheckpoint().createOrReplaceTempView("csv_flights")
        self.months.update(step.months)

    def show_specs(self) -> None:
        """Print the output of `spark-bucketing table show`."""
        warehouse = Warehouse(SessionStatements(self.spark).rows)
        with warehouse.with_needed_settings():
            try:
                console = console_on(sys.stdout)
                print_specs(read_table(warehouse, TABLE), merging_of(warehouse), console)
            except TableError as error:
                print(error)

    def compare(self, name: str, query: str, selected: str) -> tuple[Answer, Answer]:
        """Run a query over the table, and compare its rows with the result of the same query over the CSV files.

        Returns:
            The results with the extension and on stock Spark.

        Raises:
            WrongRowsError: the rows differ.
        """
        months = ", ".join(f"'{month_name(month)}'" for month in sorted(self.months))
        csv_files = f"(select * from csv_flights where flight_month in ({months}))"
        others = {"planes": f"{SCHEMA}.planes", "selected": selected}
        expected = ask(self.spark, query.format(flights=csv_files, **others), extension=False).rows
        asked = query.format(flights=TABLE, **others)
        answers = ask(self.spark, asked, extension=True), ask(self.spark, asked, extension=False)
        for answer, how in zip(answers, ("with the extension", "on stock Spark"), strict=True):
            if answer.rows != expected:
                raise WrongRowsError(f"{name}, {how}: {difference(answer.rows, expected)}.")
        return answers


def edited(model: str, config: Mapping[str, object]) -> str:
    """Replace the config of a model, and let a variable select the months that it reads.

    Raises:
        ProjectError: the model has no config or no incremental condition.
    """
    call = re.search(r"(?<=\{\{ )config\(.*?\)(?= \}\})", model, re.DOTALL)
    condition = re.search(r"\{% if is_incremental\(\) %\}.*?\{% endif %\}", model, re.DOTALL)
    if not call or not condition:
        raise ProjectError(f"{MODEL} has no {{{{ config(...) }}}}, or no {{% if is_incremental() %}}. Expected both.")
    keywords = ast.parse(call[0], mode="eval").body.keywords  # type: ignore[attr-defined]
    kept = {item.arg: ast.literal_eval(item.value) for item in keywords if item.arg not in KEYS}
    lines = "".join(f"  {key}={value!r},\n" for key, value in {**config, **kept}.items())
    return model.replace(call[0], f"config(\n{lines})").replace(condition[0], CONDITION)


def _print_macro_logs(event: Any) -> None:
    """Print only the log lines of dbt that come from macros."""
    if event.info.name == "JinjaLogInfo":
        print(event.info.msg)
