"""One Spark, one metastore and one way to run dbt for all tests.

dbt's session method takes the SparkSession of its process, so that a dbt run started from a test works on the very
session that the test looks at. Everything is written below one temporary folder.
"""

from __future__ import annotations

import itertools
import os
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from spark_bucketing.session import setting

if TYPE_CHECKING:
    from bucketed_tables import Tables
    from dbt.artifacts.schemas.results import NodeResult
    from pyspark.sql import Row, SparkSession

REPOSITORY = Path(__file__).parents[1]
SESSION_CONF = {
    "spark.master": "local[2]",
    "spark.driver.memory": "3g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "6",
    # A task for each bucket, however small, so that plans are those of large tables.
    "spark.bucketing.read.partitionBytes": "0",
    "spark.default.parallelism": "3",
    "spark.log.structuredLogging.enabled": "false",
}
# Many small statements, each with code of its own, which is run too seldom to be worth the best compiler: room for it,
# and a metastore's database that writes when it likes.
QUICK_JVM = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC -XX:-UsePerfData "
    "-Dderby.system.durability=test"
)
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The Spark of the whole run, with Hive support and an empty metastore of its own.

    The session extension is loaded and switched off, so that a test is of stock Spark unless it asks for `extension`.
    """
    from pyspark.sql import SparkSession

    from spark_bucketing.extension.build import build_jar
    from spark_bucketing.extension.settings import extension_settings

    home = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_LOCAL_DIRS"] = str(home / "local")
    builder = SparkSession.builder.appName("spark-bucketing tests").enableHiveSupport()
    conf = SESSION_CONF | extension_settings(build_jar())
    conf |= {
        "spark.bucketing.enabled": "false",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home / 'metastore'};create=true",
        "spark.hadoop.hive.downloaded.resources.dir": str(home / "resources"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={home} -Djava.io.tmpdir={home} {QUICK_JVM}",
    }
    session = builder.config(map=dict(conf)).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def extension(spark: SparkSession) -> Iterator[None]:
    """The session extension, switched on for one test, in which no query may be planned without it for an error."""
    planner = spark.sparkContext._jvm.org.apache.spark.sql.bucketing.read.BucketPlanningStrategy  # type: ignore[union-attr]
    before = planner.failures()
    with setting(spark, "spark.bucketing.enabled", "true"):
        yield
    assert planner.failures() == before, "planning with buckets failed, see the log's warnings"


@pytest.fixture(scope="module")
def tables(spark: SparkSession, request: pytest.FixtureRequest) -> Tables:
    """A database named as the test's module, for its tables, and the views `new_rows` and `scattered`."""
    from bucketed_tables import SCATTERED, Tables
    from partition_specs import NEW_ROWS

    made = Tables(spark, str(request.module.__name__).removeprefix("test_"))
    for name, rows in (("new_rows", NEW_ROWS), ("scattered", SCATTERED)):
        made.sql(f"create or replace temporary view {name} as {rows}")
    return made


@pytest.fixture
def no_broadcast(spark: SparkSession) -> Iterator[None]:
    """Joins as those of large tables, for one test; in ANSI mode, which dbt-spark switches off in this session."""
    with setting(spark, "spark.sql.autoBroadcastJoinThreshold", "-1"), setting(spark, "spark.sql.ansi.enabled", "true"):
        yield


@pytest.fixture
def dynamic_partitions(spark: SparkSession) -> Iterator[None]:
    """Hive's permission to write partitions whose values the rows bring along, for one test."""
    with setting(spark, "hive.exec.dynamic.partition.mode", "nonstrict"):
        yield


@pytest.fixture(params=[pytest.param("true", id="aqe"), pytest.param("false", id="no-aqe", marks=pytest.mark.long)])
def aqe(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    with setting(spark, "spark.sql.adaptive.enabled", request.param):
        yield


def all_long_but(quick: object, cases: Iterable[Any]) -> list[Any]:
    """Parameters of a test that is long, but for one of the cases, or for those of a tuple."""
    chosen = quick if isinstance(quick, tuple) else (quick,)
    return [pytest.param(case, marks=[] if case in chosen else pytest.mark.long) for case in cases]


def data_files(folder: Path) -> list[Path]:
    """The files below a folder but for those that Spark does not read."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name[0] not in "._")


class Failed(Exception):
    """A dbt command did not succeed; the text is what dbt says of each failed node."""


class Project:
    """A dbt project in a folder of its own, which has this repository installed as a package."""

    def __init__(self, folder: Path, schema: str, spark: SparkSession) -> None:
        self.folder, self.schema, self.spark = folder, schema, spark
        self.place = ["--project-dir", str(folder), "--profiles-dir", str(folder)]

    def write(self, path: str, text: str) -> None:
        """Create or replace a file of the project; common indentation is taken off."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(text))

    def model(self, name: str, sql: str, **config: object) -> None:
        """Create or replace a model with this config."""
        arguments = ", ".join(f"{key}={value!r}" for key, value in config.items())
        self.write(f"models/{name}.sql", f"{{{{ config({arguments}) }}}}\n{textwrap.dedent(sql)}\n")

    def describe(self, *models: Mapping[str, object]) -> None:
        """Create or replace what a file of properties says of models."""
        self.write("models/models.yml", yaml.safe_dump({"models": list(map(dict, models))}, allow_unicode=True))

    def build(self, sql: str, **config: object) -> None:
        """Create or replace the model m, and run the project."""
        self.model("m", sql, **config)
        self.dbt("run")

    def dbt(self, *arguments: str, **variables: object) -> dict[str, NodeResult]:
        """Results by their nodes' names of a dbt command, run in this process; raises Failed with what did not succeed."""
        results, failure = self.attempt(*arguments, **variables)
        if failure:
            raise Failed(failure)
        return results

    def attempt(self, *arguments: str, **variables: object) -> tuple[dict[str, NodeResult], str]:
        """Run a dbt command; what failed comes back as text, which is empty for a success."""
        from dbt.cli.main import dbtRunner

        outcome = dbtRunner().invoke(
            [*arguments, *self.place, "--quiet", "--no-use-colors", "--vars", yaml.safe_dump(variables)]
        )
        results = list(getattr(outcome.result, "results", None) or [])
        failures = [
            f"{result.node.name}: {result.message}"
            for result in results
            if result.status not in ("success", "pass", "warn")
        ]
        if not outcome.success and not failures:
            failures = [str(outcome.exception)]
        return {result.node.name: result for result in results}, "\n".join(failures)

    def table(self, name: str) -> str:
        return f"`{self.schema}`.`{name}`"

    def rows(self, query: str) -> list[Row]:
        """Rows of a query, in which {schema} stands for the project's schema."""
        return self.spark.sql(query.replace("{schema}", self.schema)).collect()

    def tables(self) -> set[str]:
        """Names of the tables and views in the project's schema."""
        return {row.tableName for row in self.rows("show tables in {schema}") if not row.isTemporary}

    def detail(self, name: str, key: str) -> str | None:
        """One line of DESCRIBE EXTENDED."""
        found = [row.data_type for row in self.rows(f"describe extended {self.table(name)}") if row.col_name == key]
        return found[-1] if found else None

    def location(self, name: str) -> Path:
        return Path(str(self.detail(name, "Location")).removeprefix("file:"))

    def files(self, name: str) -> list[Path]:
        """Data files of a table that lie below its folder, as paths relative to it."""
        root = self.location(name)
        return [path.relative_to(root) for path in data_files(root)]


@pytest.fixture(scope="session")
def new_project(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Project]:
    """Function that makes a dbt project with this repository installed, empty or a copy of one in tests/projects."""

    def make(template: str | None = None, **settings: object) -> Project:
        schema = f"s{next(_numbers)}"
        folder = tmp_path_factory.mktemp(schema) / "project"
        if template:
            shutil.copytree(REPOSITORY / "tests" / "projects" / template, folder)
        project = Project(folder, schema, spark)
        spark.sql(f"create schema {schema}")
        if not template:
            project.write("dbt_project.yml", yaml.safe_dump({"name": "t", "profile": "t", **settings}))
        project.write("packages.yml", yaml.safe_dump({"packages": [{"local": str(REPOSITORY)}]}))
        output = {"type": "spark", "method": "session", "host": "NA", "schema": schema, "threads": 2}
        name = yaml.safe_load((folder / "dbt_project.yml").read_text())["profile"]
        project.write("profiles.yml", yaml.safe_dump({name: {"target": "t", "outputs": {"t": output}}}))
        packages = folder / "dbt_packages"
        packages.mkdir()
        (packages / "spark_bucketing").symlink_to(REPOSITORY)
        return project

    return make


@pytest.fixture
def project(new_project: Callable[..., Project]) -> Project:
    """An empty dbt project with this repository installed."""
    return new_project()
