"""What the target's Spark is, asked in SQL: its version, the extension, its settings, its metastore."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version as installed
from typing import NamedTuple

from spark_bucketing.doctor.diagnosis import Diagnosis, wrong
from spark_bucketing.evolution.warehouse import Warehouse
from spark_bucketing.extension.settings import EXTENSION_CLASS

_OLDEST, _NEWEST = (3, 5), (4, 3)


class _Setting(NamedTuple):
    name: str
    right: str  # true, false, or 0, for which negative numbers do as well
    effect: str  # of another value

    def is_right(self, value: str) -> bool:
        given = value.strip().lower()
        return given == self.right or (self.right == "0" and re.fullmatch(r"0+|-\d+", given) is not None)


_HIVES_READER = "Hive's own classes read and write the Hive layout, and know no buckets"
_LOSES = "rows of files that cannot be read are left out in silence; the materializations refuse to copy rows so"
# Of each Spark's default is the right value; only what somebody has set is looked at.
SETTINGS = (
    _Setting("spark.bucketing.enabled", "true", "the extension neither uses buckets nor seals what is written"),
    _Setting("spark.bucketing.write.distribute", "true", "writes make several files for each bucket"),
    _Setting("spark.sql.sources.bucketing.enabled", "true", "Spark ignores all buckets"),
    _Setting("spark.sql.files.maxRecordsPerFile", "0", "a bucket is written as several files"),
    _Setting("spark.sql.hive.convertMetastoreParquet", "true", _HIVES_READER),
    _Setting("spark.sql.hive.convertMetastoreOrc", "true", _HIVES_READER),
    _Setting("spark.sql.hive.convertInsertingPartitionedTable", "true", _HIVES_READER),
    _Setting("spark.sql.hive.manageFilesourcePartitions", "true", "nothing is known of single partitions"),
    _Setting("spark.sql.runSQLOnFiles", "true", "the materializations cannot look at directories"),
    _Setting("spark.sql.optimizer.disableHints", "false", "without the extension rows are not brought together"),
    _Setting("spark.sql.parser.escapedStringLiterals", "false", "names and values in SQL mean something else"),
    _Setting("spark.sql.caseSensitive", "false", "columns are not found by the names that the metastore keeps"),
    _Setting("spark.sql.files.ignoreCorruptFiles", "false", _LOSES),
    _Setting("spark.sql.files.ignoreMissingFiles", "false", _LOSES),
)
_ANSI = "spark.sql.ansi.enabled"
# Plugins whose columnar rules replace the scans of buckets.
_ENGINES = ("comet", "gluten", "rapids", "velox")
# In what DESCRIBE FUNCTION says of the extension; the dbt package looks for the same.
_BUILT = re.compile(r"spark-bucketing ([^ ,]+), for Spark ([^ )]+)")
_ANEW = (
    "build the jar by `spark-bucketing extension build` of this release, against the server's Spark, put it where the "
    "old one is, and start the server again"
)


def examine_server(warehouse: Warehouse) -> Iterator[Diagnosis]:
    """Look at a session of the target's Spark; nothing of it is changed.

    Raises:
        SparkError: Spark does not answer.
    """
    settings = {key.lower(): value for key, value in warehouse.settings().items()}
    version = str(next(iter(warehouse.rows("select version() as version")))["version"]).partition(" ")[0]
    yield _spark(version, settings)
    yield _extension(settings, warehouse.extension_description(), version)
    yield from _settings(settings)
    yield from _engines(settings)
    yield _metastore(warehouse)


def _numbers(version: str) -> tuple[int, ...]:
    """A version of Spark; a vendor's counts as what it begins with."""
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _spark(version: str, settings: Mapping[str, str]) -> Diagnosis:
    numbers = _numbers(version)
    if numbers < _OLDEST:
        return wrong("Spark", version, "Spark 3.5 or newer")
    if numbers[:2] > _NEWEST:
        return Diagnosis("Spark", version, "unknown", "it was not tried with Spark newer than 4.3")
    if (4, 1) <= numbers < (4, 1, 4) or (4, 2) <= numbers < (4, 2, 1):
        return wrong(
            "Spark",
            f"{version}, which groups a UNION ALL of bucketed tables wrongly (SPARK-59141)",
            "take 4.1.4, 4.2.1 or newer; until then set spark.sql.unionOutputPartitioning=false",
        )
    scripts = settings.get("spark.sql.scripting.enabled", str(numbers >= (4, 1))).strip().lower() == "true"
    one_by_one = "" if numbers >= (4, 0) and scripts else "; it runs no SQL scripts, see docs/versions.md"
    return Diagnosis("Spark", version + one_by_one)


def _extension(settings: Mapping[str, str], description: str, spark: str) -> Diagnosis:
    if description:
        return _jar(description, spark)
    if EXTENSION_CLASS in map(str.strip, settings.get("spark.sql.extensions", "").split(",")):
        return wrong(
            "session extension",
            f"spark.sql.extensions names {EXTENSION_CLASS}, and Spark started without it: its jar is missing or was "
            "built for another Spark; the server's log says which",
            "put the jar where the driver starts: `spark-bucketing extension conf`",
        )
    return wrong(
        "session extension",
        "not loaded: Spark reads tables of the Hive layout as plain ones",
        "add what `spark-bucketing extension conf` prints to the server's configuration, or to the profile's "
        "server_side_parameters where the method is session",
    )


def _jar(description: str, spark: str) -> Diagnosis:
    """Whether the jar is of this command's release, and was built for the Spark that has loaded it."""
    said = _BUILT.search(description)
    if not said:
        return wrong("session extension", "its `bucket_specs` does not say which version it is of", _ANEW)
    jar, built_for = said.groups()
    found, plugin = f"version {jar}, built for Spark {built_for}", installed("spark-bucketing")
    if jar != plugin:
        return wrong("session extension", f"{found}, beside version {plugin} of this command", _ANEW)
    if _numbers(built_for)[:2] != _numbers(spark)[:2]:
        return wrong("session extension", f"{found}, and loaded by Spark {spark}", _ANEW)
    return Diagnosis("session extension", found)


def _settings(settings: Mapping[str, str]) -> Iterator[Diagnosis]:
    given = [(setting, settings[setting.name.lower()]) for setting in SETTINGS if setting.name.lower() in settings]
    bad = [(setting, value) for setting, value in given if not setting.is_right(value)]
    for setting, value in bad:
        yield wrong(f"{setting.name}={value}", setting.effect, f"{setting.name}={setting.right}, or leave it out")
    yield Diagnosis("settings", f"{len(SETTINGS) - len(bad)} of {len(SETTINGS)} are as they should be")
    # dbt-spark sets it so, whatever the profile says: that breaks no bucket.
    if settings.get(_ANSI, "true").strip().lower() != "true":
        loose = "a value that does not fit its column's type is written as another one, or as NULL, without an error"
        yield Diagnosis(f"{_ANSI}=false", loose)


def _engines(settings: Mapping[str, str]) -> Iterator[Diagnosis]:
    plugins = settings.get("spark.plugins", "")
    if any(engine in plugins.lower() for engine in _ENGINES):
        yield wrong(
            f"spark.plugins={plugins}",
            "another engine's columnar rules replace scans: tables are read plainly beside them",
            "leave the plugin out in the sessions that are to use buckets",
        )


def _metastore(warehouse: Warehouse) -> Diagnosis:
    found = {name: str(next(iter(warehouse.rows(f"set {name}")))["value"]) for name in _METASTORE}
    catalog, client = found.values()
    if catalog != "hive":
        return wrong(
            "metastore",
            f"spark.sql.catalogImplementation={catalog}",
            "a session with Hive's metastore: spark.sql.catalogImplementation=hive",
        )
    return Diagnosis("metastore", f"Hive's, by a client of version {client}")


_METASTORE = ("spark.sql.catalogImplementation", "spark.sql.hive.metastore.version")
