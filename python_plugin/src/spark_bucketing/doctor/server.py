"""Check the local installation, and the target's Spark with SQL: its version, extension, settings and metastore."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import TextIO

from spark_bucketing.errors import ProjectError, SparkError, State
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.output import STATE_STYLES, console_on, print_template, write_json
from spark_bucketing.project.manifest import read_project
from spark_bucketing.sql import settings_of
from spark_bucketing.tables.warehouse import BUILT, SETTINGS, Warehouse
from spark_bucketing.units import has_union_bug, version_numbers

_PACKAGE = "spark_bucketing"
_OLDEST, _NEWEST = (3, 5), (4, 3)


@dataclass(frozen=True)
class Diagnosis:
    """The result of checking one subject."""

    subject: str  # for example Spark, or the name of a setting
    found: str
    state: State = "ok"  # `unknown` does not count as `ok`
    instead: str = ""  # the action to take; with the state `ok`, only if the finding matters to the project


def wrong(subject: str, found: str, instead: str) -> Diagnosis:
    """Return a diagnosis for a problem that prevents Spark from writing or using buckets."""
    return Diagnosis(subject, found, "wrong", instead)


_RECORDS_PER_FILE = "spark.sql.files.maxRecordsPerFile"
_STAGING, _UNIQUE_NAMES = "spark.hadoop.fs.s3a.committer.name", "spark.hadoop.fs.s3a.committer.staging.unique-filenames"
_ANSI = "spark.sql.ansi.enabled"
# Plugins whose columnar rules replace bucketed scans. Comet keeps them if its extension comes last.
_ENGINES = ("gluten", "rapids", "velox")
_REBUILD = (
    "run `spark-bucketing extension build` from this release for the server's Spark version, replace the jar, and "
    "restart the server"
)


def examine_installed(project_dir: Path) -> Iterator[Diagnosis]:
    """Check the versions of all packages that are required by dbt runs and by spark-bucketing commands."""
    yield Diagnosis("Python", ".".join(map(str, sys.version_info[:3])))
    for distribution in ("dbt-core", "dbt-spark"):
        found = _version(distribution)
        if found:
            yield Diagnosis(distribution, found)
        else:
            yield wrong(distribution, "not installed", "pip install 'spark-bucketing[dbt]'")
    yield _dbt_package(project_dir, _version("spark-bucketing") or "")


def _version(distribution: str) -> str | None:
    try:
        return installed(distribution)
    except PackageNotFoundError:
        return None


def _dbt_package(project_dir: Path, plugin: str) -> Diagnosis:
    def read(folder: Path) -> Mapping[str, object]:
        with suppress(ProjectError):
            return read_project(folder)
        return {}

    project = read(project_dir)
    folder = project_dir / str(project.get("packages-install-path") or "dbt_packages") / _PACKAGE
    # The project may itself be the package.
    package = project if project.get("name") == _PACKAGE else read(folder)
    found = str(package.get("version") or "")
    if not found:
        return Diagnosis(
            "dbt package", "not installed in this project", "unknown", "add it to packages.yml, and run `dbt deps`"
        )
    if found != plugin:
        return wrong(
            "dbt package",
            f"version {found}, but this command has version {plugin}",
            f"use the same release for both: set `revision:` in packages.yml, or pip install spark-bucketing=={found}",
        )
    return Diagnosis("dbt package", f"version {found}, same as this command")


def examine_server(warehouse: Warehouse) -> Iterator[Diagnosis]:
    """Check the target's Spark in an open session, without changing anything."""
    settings = {key.lower(): value for key, value in settings_of(warehouse.rows).items()}
    version = str(next(iter(warehouse.rows("select version() as version")))["version"]).partition(" ")[0]
    yield _spark(version, settings)
    description = warehouse.extension_description()
    yield _extension(settings, description, version)
    yield from _settings(settings, bool(description))
    plugins = settings.get("spark.plugins", "")
    if any(engine in plugins.lower() for engine in _ENGINES):
        yield wrong(
            f"spark.plugins={plugins}",
            "this engine's columnar rules replace scans, so Spark does not read tables as bucketed",
            "remove the plugin from sessions that should use buckets",
        )
    extensions = settings.get("spark.sql.extensions", "")
    if -1 < extensions.find("CometSparkSessionExtensions") < extensions.find("BucketingExtension"):
        yield wrong(
            f"spark.sql.extensions={extensions}",
            "Comet replaces scans before the session extension plans them, so it does not read tables as bucketed",
            "list Comet's extension after that of spark-bucketing",
        )
    yield from _committer(settings, warehouse)
    yield from _staging_committer(settings)
    yield _metastore(warehouse)


def _spark(version: str, settings: Mapping[str, str]) -> Diagnosis:
    numbers = version_numbers(version)
    if numbers < _OLDEST:
        return wrong("Spark", version, "use Spark 3.5 or newer")
    if numbers[:2] > _NEWEST:
        return Diagnosis(
            "Spark", version, "unknown", "use Spark 4.3 or older; spark-bucketing was not tested with newer versions"
        )
    if has_union_bug(numbers):
        return wrong(
            "Spark",
            f"{version}, which returns wrong results for GROUP BY over a UNION ALL of bucketed tables (SPARK-59141)",
            "upgrade to 4.1.4, 4.2.1 or newer; until then, set spark.sql.unionOutputPartitioning=false",
        )
    scripts = settings.get("spark.sql.scripting.enabled", str(numbers >= (4, 1))).strip().lower() == "true"
    has_scripts = numbers >= (4, 0) and scripts
    one_by_one = "" if has_scripts else "; SQL scripts are not available (see docs/reference/versions.md)"
    return Diagnosis("Spark", version + one_by_one)


def _extension(settings: Mapping[str, str], description: str, spark: str) -> Diagnosis:
    if description:
        return _jar(description, spark)
    if EXTENSION_CLASS in map(str.strip, settings.get("spark.sql.extensions", "").split(",")):
        return wrong(
            "session extension",
            f"spark.sql.extensions contains {EXTENSION_CLASS}, but Spark did not load it: the jar is missing; see "
            "the server's log",
            "make the jar available to the driver: see `spark-bucketing extension conf`",
        )
    return wrong(
        "session extension",
        "not loaded, so runs do not seal tables in the Hive layout, and Spark reads them with ordinary scans",
        "add the output of `spark-bucketing extension conf` to the server's configuration or, for the method "
        "session, to the profile's server_side_parameters",
    )


def _jar(description: str, spark: str) -> Diagnosis:
    """Check that the extension's jar has this command's version, and was built for the running version of Spark."""
    said = BUILT.search(description)
    if not said:
        return wrong(
            "session extension",
            "unknown version, because the description of `bucket_specs` does not contain it",
            _REBUILD,
        )
    jar, built_for = said.groups()
    found, plugin = f"version {jar}, built for Spark {built_for}", installed("spark-bucketing")
    if version_numbers(built_for)[:2] != version_numbers(spark)[:2]:
        ignored = f"{found}, but the session runs Spark {spark} and therefore does not use the extension"
        return wrong("session extension", ignored, _REBUILD)
    if jar != plugin:
        return wrong("session extension", f"{found}, but this command has version {plugin}", _REBUILD)
    return Diagnosis("session extension", found)


def _settings(settings: Mapping[str, str], has_extension: bool) -> Iterator[Diagnosis]:
    given = [(setting, settings[setting.name.lower()]) for setting in SETTINGS if setting.name.lower() in settings]
    bad = [(setting, value) for setting, value in given if not setting.is_right(value)]
    if has_extension and {"spark.bucketing.enabled", "spark.bucketing.write.distribute"}.isdisjoint(
        setting.name for setting, _ in bad
    ):
        # The extension ignores this setting in writes into bucketed tables.
        bad = [(setting, value) for setting, value in bad if setting.name != _RECORDS_PER_FILE]
    for setting, value in bad:
        yield wrong(
            f"{setting.name}={value}", setting.effect, f"set {setting.name}={setting.right}, or remove the setting"
        )
    yield Diagnosis("settings", f"{len(SETTINGS) - len(bad)} of {len(SETTINGS)} are correct")
    # dbt-spark sets this regardless of the profile, and it does not affect buckets.
    if settings.get(_ANSI, "true").strip().lower() != "true":
        loose = "Spark silently converts a value that does not fit its column's type, or replaces it with NULL"
        yield Diagnosis(f"{_ANSI}=false", loose)


def _committer(settings: Mapping[str, str], warehouse: Warehouse) -> Iterator[Diagnosis]:
    """Check the committer of writes if the warehouse is on an object store, where a rename copies the file."""
    location = str(next(iter(warehouse.rows(f"set {_WAREHOUSE}")))["value"])
    scheme = location.partition(":")[0].lower()
    if scheme in _COMMITTERS:
        name, needed = _COMMITTERS[scheme]
        missing = {key: value for key, value in {**needed, **_BINDING}.items() if settings.get(key.lower()) != value}
        if missing:
            yield wrong(
                f"{_WAREHOUSE}={location}",
                "Spark commits files with renames, which are slow on this store, and a failed commit can leave files "
                "of an incomplete write",
                f"use the {name}: set " + ", ".join(f"{key}={value}" for key, value in missing.items()),
            )
        else:
            yield Diagnosis("committer", f"{name} for {location}")


def _staging_committer(settings: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Check the staging committers of S3A, which add an id to file names unless a setting disables it."""
    name = settings.get(_STAGING, "").strip().lower()
    if name in ("directory", "partitioned") and settings.get(_UNIQUE_NAMES, "true").strip().lower() != "false":
        yield wrong(
            f"{_STAGING}={name}",
            "this committer adds an id to file names, so files in the Spark layout have no bucket number and no seal",
            f"set {_UNIQUE_NAMES}=false, or use the magic committer",
        )


def _metastore(warehouse: Warehouse) -> Diagnosis:
    found = {name: str(next(iter(warehouse.rows(f"set {name}")))["value"]) for name in _METASTORE}
    catalog, client = found.values()
    if catalog != "hive":
        return wrong(
            "metastore",
            f"spark.sql.catalogImplementation={catalog}",
            "use a session with a Hive metastore: spark.sql.catalogImplementation=hive",
        )
    try:
        warehouse.rows(PROBE)
    except SparkError as error:
        # A metastore of another version may lack the client's method for reading a table.
        refused = re.search(r"Invalid method name: '\w+'", str(error))
    else:
        refused = None
    if refused:
        return wrong(
            "metastore",
            f"the metastore does not have a method that the client of Hive {client} calls: {refused[0]}",
            "for a metastore of Hive 4, use Spark 4.0 or newer with spark.sql.hive.metastore.version=4.0.1 and "
            "spark.sql.hive.metastore.jars=maven; or set spark.sql.hive.metastore.jars=path, and "
            "spark.sql.hive.metastore.jars.path to the jars of Hive 4",
        )
    return Diagnosis("metastore", f"Hive, client version {client}")


_WAREHOUSE = "spark.sql.warehouse.dir"
# Spark's classes that let a file system choose the committer; see Spark's page about cloud storage.
_BINDING = {
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
}
_FACTORY = "spark.hadoop.mapreduce.outputcommitter.factory.scheme."
_MANIFEST = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory"
_AZURE = "org.apache.hadoop.fs.azurebfs.commit.AzureManifestCommitterFactory"
# The committer of each object store by the scheme of its URIs, with the settings that select it.
_COMMITTERS = {
    "s3a": ("magic committer of S3A", {"spark.hadoop.fs.s3a.committer.name": "magic"}),
    "gs": ("manifest committer", {f"{_FACTORY}gs": _MANIFEST}),
    "abfs": ("manifest committer", {f"{_FACTORY}abfs": _AZURE}),
    "abfss": ("manifest committer", {f"{_FACTORY}abfss": _AZURE}),
}
# Reads a table that usually does not exist, because only reading a table shows whether client and metastore match.
PROBE = "describe table default.spark_bucketing_doctor"
_METASTORE = ("spark.sql.catalogImplementation", "spark.sql.hive.metastore.version")


def write_diagnoses(target: str, found: Sequence[Diagnosis], form: str, file: TextIO) -> None:
    """Write the results of all checks, in text with one line for each subject, and the remedy below it."""
    if form == "json":
        write_json({"target": target, "examined": found}, file)
    else:
        print_template(console_on(file), __file__, "report.txt", found=found, styles=STATE_STYLES)
