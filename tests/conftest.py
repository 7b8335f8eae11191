"""Define fixtures for all tests: one Spark, one metastore, and one way to run dbt.

dbt's session method reuses the SparkSession of its process. A dbt run started from a test therefore works in the
session that the test inspects. All files are below one temporary folder.
"""

from __future__ import annotations

import itertools
import os
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import hypothesis
import pytest
import yaml
from session_settings import setting
from spark_subprocess import QUICK_SETTINGS

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
    # Read every bucket, however small, in its own task, so that plans are the same as for large tables.
    "spark.bucketing.read.partitionBytes": "0",
    "spark.default.parallelism": "3",
    "spark.log.structuredLogging.enabled": "false",
    # Keep all compiled code, because the tests repeat similar statements.
    "spark.sql.codegen.cache.maxEntries": "5000",
    **QUICK_SETTINGS,
    # Only this process uses its metastore, so the metastore can keep what it has read.
    "spark.hadoop.datanucleus.cache.level2": "true",
    "spark.hadoop.datanucleus.cache.level2.type": "soft",
    # The metastore repeats a failed call ten times; by default, it sleeps for 2 seconds before each repetition.
    "spark.hadoop.hive.hmshandler.retry.interval": "1ms",
}
# Tests of reads, writes and plans are in these folders and modules, and compile code as Spark does by default.
COMPILED_IN = {"read", "fuzz", "test_writes", "test_write_plans", "test_organized_inserts"}
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
# Tests run many small statements, and the code of each runs only a few times. Therefore, skip the optimizing compiler,
# enlarge the code cache, collect garbage rarely, and let the metastore's database flush lazily and keep its compiled
# statements.
QUICK_JVM = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC -Xmn1200m -XX:MetaspaceSize=512m "
    "-XX:-UsePerfData -Dderby.system.durability=test -Dderby.language.statementCache.size=2000"
)
# Each process of a test run has its own Spark, with a heap, generated code and a metastore database.
GIB_PER_PROCESS = 6
_numbers = itertools.count(1)
# The time of an example depends on the load of the machine.
hypothesis.settings.register_profile("any load", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("any load")


def pytest_xdist_auto_num_workers() -> int:
    """Start as many processes as cores and memory allow; PYTEST_XDIST_AUTO_NUM_WORKERS overrides their number.

    A process keeps about two thirds of a core busy.
    """
    given = os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return int(given) if given else max(1, min((os.cpu_count() or 1) * 3 // 2, int(memory // GIB_PER_PROCESS)))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases of a test as long, except as many as its mark `some` states, evenly spaced from first to last.

    Of some tests with a single quick case, this is the last one, so that other tests cover the first layout and these
    the last layout.
    """
    cases: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("some") and not item.get_closest_marker("long"):
            cases.setdefault((item.path, getattr(item, "originalname", item.name)), []).append(item)
    for (_, test), of in cases.items():
        number = next(of[0].iter_markers("some")).args[0]
        last = len(of) - 1
        chosen = (
            {one * last // (number - 1) for one in range(number)} if number > 1 else {last * (crc32(test.encode()) % 2)}
        )
        for position, item in enumerate(of):
            if position not in chosen:
                item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def more_settings() -> Mapping[str, str]:
    """Return additional settings of the session; folders of tests may override this fixture."""
    return {}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, more_settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Start the Spark session for the whole test run, with Hive support and an empty metastore.

    The session extension is loaded but disabled, so a test runs on stock Spark unless it requests `extension`.
    """
    from local_files import file_system_settings
    from pyspark.sql import SparkSession

    from spark_bucketing.extension.build import build_jar
    from spark_bucketing.extension.settings import extension_settings

    home = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_LOCAL_DIRS"] = str(home / "local")
    builder = SparkSession.builder.appName("spark-bucketing tests").enableHiveSupport()
    conf = SESSION_CONF | extension_settings(build_jar()) | file_system_settings()
    conf |= {
        "spark.bucketing.enabled": "false",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:memory:{home / 'metastore'};create=true",
        "spark.hadoop.hive.downloaded.resources.dir": str(home / "resources"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={home} -Djava.io.tmpdir={home} -Xms3g {QUICK_JVM}",
        **more_settings,
    }
    session = builder.config(map=dict(conf)).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def compiled_code(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let Spark compile code in some folders and modules."""
    with ExitStack() as stack:
        if COMPILED_IN & {request.path.parent.name, request.path.stem}:
            for name, value in COMPILED.items():
                stack.enter_context(setting(request.getfixturevalue("spark"), name, value))
        yield


@pytest.fixture
def extension(spark: SparkSession) -> Iterator[None]:
    """Enable the session extension for one test, and check that no planning error prevented the use of buckets."""
    planner = spark.sparkContext._jvm.org.apache.spark.sql.bucketing.read.BucketPlanningStrategy  # type: ignore[union-attr]
    before = planner.failures()
    with setting(spark, "spark.bucketing.enabled", "true"):
        yield
    assert planner.failures() == before, "planning with buckets failed, see the warnings in the log"


@pytest.fixture(scope="module")
def extension_for_module(spark: SparkSession) -> Iterator[None]:
    """Enable the session extension for a module whose fixtures also need it."""
    with setting(spark, "spark.bucketing.enabled", "true"):
        yield


@pytest.fixture(scope="module")
def bucketing_version() -> str:
    """Return the bucketing version of tables in the Hive layout; test modules may override this fixture."""
    return "1"


@pytest.fixture(scope="module")
def tables(spark: SparkSession, request: pytest.FixtureRequest, bucketing_version: str) -> Tables:
    """Create a database named after the test module, with the views `new_rows` and `scattered`."""
    from bucketed_tables import SCATTERED, Tables
    from partition_specs import NEW_ROWS

    name = str(request.module.__name__).removeprefix("test_")
    made = Tables(spark, name if bucketing_version == "1" else f"{name}_v{bucketing_version}", bucketing_version)
    for name, rows in (("new_rows", NEW_ROWS), ("scattered", SCATTERED)):
        made.sql(f"create or replace temporary view {name} as {rows}")
    return made


@pytest.fixture
def no_broadcast(spark: SparkSession) -> Iterator[None]:
    """Plan joins as for large tables in one test, and enable ANSI mode, which dbt-spark disables in this session."""
    with setting(spark, "spark.sql.autoBroadcastJoinThreshold", "-1"), setting(spark, "spark.sql.ansi.enabled", "true"):
        yield


@pytest.fixture
def dynamic_partitions(spark: SparkSession) -> Iterator[None]:
    """Allow dynamic partition writes in one test."""
    with setting(spark, "hive.exec.dynamic.partition.mode", "nonstrict"):
        yield


@pytest.fixture(params=[pytest.param("true", id="aqe"), pytest.param("false", id="no-aqe", marks=pytest.mark.long)])
def aqe(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    with setting(spark, "spark.sql.adaptive.enabled", request.param):
        yield


@pytest.fixture(params=["true", "false"], ids=["generated", "interpreted"])
def generated(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """Evaluate the expressions of one test with generated code or without it, including constants."""
    mode = "CODEGEN_ONLY" if request.param == "true" else "NO_CODEGEN"
    with (
        setting(spark, "spark.sql.codegen.wholeStage", request.param),
        setting(spark, "spark.sql.codegen.factoryMode", mode),
        # The optimizer folds constants, so they would never reach generated code.
        setting(spark, "spark.sql.optimizer.excludedRules", "org.apache.spark.sql.catalyst.optimizer.ConstantFolding"),
    ):
        yield


def all_long_but(quick: object, cases: Iterable[Any]) -> list[Any]:
    """Mark all parameters of a test as long, except for one case or a tuple of cases."""
    chosen = quick if isinstance(quick, tuple) else (quick,)
    return [pytest.param(case, marks=[] if case in chosen else pytest.mark.long) for case in cases]


def parameters(request: pytest.FixtureRequest, name: str) -> set[Any]:
    """Return the values of a parameter in the tests of this run, so that a fixture prepares only what they use."""
    specs = (getattr(item, "callspec", None) for item in request.session.items)
    return {spec.params[name] for spec in specs if spec and name in spec.params}


def data_files(folder: Path) -> list[Path]:
    """Return the files below a folder that Spark reads."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and all(name[0] not in "._" for name in path.relative_to(folder).parts)
    )


class Failed(Exception):
    """Raised if a dbt command fails; the message contains dbt's text for each failed node."""


class Project:
    """A dbt project in its own folder, which installs this repository as a package."""

    def __init__(self, folder: Path, schema: str, spark: SparkSession) -> None:
        self.folder, self.schema, self.spark = folder, schema, spark
        # Whether runs write manifest.json and run_results.json; writing them takes longer than parsing.
        self.keeps_artifacts = False
        self.place = ["--project-dir", str(folder), "--profiles-dir", str(folder)]

    def write(self, path: str, text: str) -> None:
        """Create or replace a file of the project, without the text's common indentation."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(text))

    def model(self, name: str, sql: str, **config: object) -> None:
        """Create or replace a model with this config."""
        arguments = ", ".join(f"{key}={value!r}" for key, value in config.items())
        self.write(f"models/{name}.sql", f"{{{{ config({arguments}) }}}}\n{textwrap.dedent(sql)}\n")

    def describe(self, *models: Mapping[str, object]) -> None:
        """Create or replace the properties file of these models."""
        self.write("models/models.yml", yaml.safe_dump({"models": list(map(dict, models))}, allow_unicode=True))

    def build(self, sql: str, **config: object) -> None:
        """Create or replace the model m, and run the whole project."""
        self.model("m", sql, **config)
        self.dbt("run")

    def dbt(self, *arguments: str, **variables: object) -> dict[str, NodeResult]:
        """Run a dbt command in this process; return results by node name, or raise Failed."""
        results, failure = self.attempt(*arguments, **variables)
        if failure:
            raise Failed(failure)
        return results

    def attempt(self, *arguments: str, **variables: object) -> tuple[dict[str, NodeResult], str]:
        """Run a dbt command; return the results, and the text of the failures, which is empty after a success."""
        from dbt.cli.main import dbtRunner

        options = ["--quiet", "--no-use-colors", "--no-send-anonymous-usage-stats", "--vars", yaml.safe_dump(variables)]
        options += [] if self.keeps_artifacts else ["--no-write-json"]
        outcome = dbtRunner().invoke([*arguments, *self.place, *options])
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
        """Run a query in which {schema} is the project's schema; return its rows."""
        return self.spark.sql(query.replace("{schema}", self.schema)).collect()

    def tables(self) -> set[str]:
        """Return the names of the tables and views in the project's schema."""
        return {row.tableName for row in self.rows("show tables in {schema}") if not row.isTemporary}

    def detail(self, name: str, key: str) -> str | None:
        """Return one value from the output of DESCRIBE EXTENDED."""
        found = [row.data_type for row in self.rows(f"describe extended {self.table(name)}") if row.col_name == key]
        return found[-1] if found else None

    def location(self, name: str) -> Path:
        return Path(str(self.detail(name, "Location")).removeprefix("file:"))

    def files(self, name: str) -> list[Path]:
        """Return the data files of a table, as paths relative to its folder."""
        root = self.location(name)
        return [path.relative_to(root) for path in data_files(root)]


@pytest.fixture(scope="session")
def new_project(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Project]:
    """Return a function that creates a dbt project with this repository installed, empty or from tests/projects."""
    from dbt_common.tests import enable_test_caching

    # All projects have the same macros, and dbt parses each macro only once.
    enable_test_caching()

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
    """Create an empty dbt project with this repository installed."""
    return new_project()
