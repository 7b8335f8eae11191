"""Access a warehouse only through SQL, which works over any connection."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from spark_bucketing.errors import SparkError
from spark_bucketing.sql import Rows, settings_of, with_settings

# The function that the extension defines instead of its own functions if its jar was built for another Spark version.
NOT_LOADED = "spark_bucketing_not_loaded"
# The versions in the descriptions of the extension's functions; the dbt package searches for the same text.
BUILT = re.compile(r"spark-bucketing ([^ ,]+), for Spark ([^ )]+)")


class RequiredSetting(NamedTuple):
    """A setting with its only correct value, which is the default in every Spark version."""

    name: str
    right: str  # true, false, or 0; for 0, negative numbers are also correct
    effect: str  # effect of any other value
    is_set: bool = False  # whether the table commands set it, to read all rows and to write buckets

    def is_right(self, value: str) -> bool:
        """Return whether a value of the setting is correct."""
        given = value.strip().lower()
        return given == self.right or (self.right == "0" and re.fullmatch(r"0+|-\d+", given) is not None)


_HIVES_READER = "Hive's own classes read and write the Hive layout without using buckets"
_LOSES = "Spark silently skips unreadable files, so the materializations refuse to copy data"
_SEVERAL = "each write creates several files per bucket"
SETTINGS = tuple(
    RequiredSetting(*setting)
    for setting in (
        ("spark.bucketing.enabled", "true", "the extension neither uses buckets nor seals tables", True),
        ("spark.bucketing.write.distribute", "true", _SEVERAL, True),
        ("spark.bucketing.write.atomic", "true", "queries can miss rows during an INSERT OVERWRITE"),
        ("spark.sql.sources.bucketing.enabled", "true", "Spark ignores all buckets"),
        ("spark.sql.files.maxRecordsPerFile", "0", "Spark splits a bucket into several files"),
        ("spark.sql.hive.convertMetastoreParquet", "true", _HIVES_READER, True),
        ("spark.sql.hive.convertMetastoreOrc", "true", _HIVES_READER, True),
        ("spark.sql.hive.convertInsertingPartitionedTable", "true", _HIVES_READER, True),
        ("spark.sql.hive.convertInsertingUnpartitionedTable", "true", _HIVES_READER, True),
        ("spark.sql.hive.manageFilesourcePartitions", "true", "Spark has no metadata for individual partitions", True),
        ("spark.sql.runSQLOnFiles", "true", "the materializations cannot read directories"),
        ("spark.sql.optimizer.disableHints", "false", f"without the extension, {_SEVERAL}"),
        ("spark.sql.parser.escapedStringLiterals", "false", "string literals in SQL have a different meaning", True),
        ("spark.sql.caseSensitive", "false", "Spark cannot find columns by their names in the metastore"),
        ("spark.sql.files.ignoreCorruptFiles", "false", _LOSES, True),
        ("spark.sql.files.ignoreMissingFiles", "false", _LOSES, True),
    )
)
_NEEDED: Mapping[str, str] = {
    **{setting.name: setting.right for setting in SETTINGS if setting.is_set},
    "spark.sql.legacy.parseNullPartitionSpecAsStringLiteral": "false",
}


@dataclass(frozen=True)
class Warehouse:
    """Runs SQL statements in a session or over a connection."""

    rows: Rows

    def change(self, statement: str) -> None:
        """Run a statement that changes data, metadata or settings."""
        self.rows(statement)

    @contextmanager
    def with_needed_settings(self) -> Iterator[Warehouse]:
        """Ensure that Spark reads all rows and writes buckets inside the block, and restore the settings afterwards."""
        settings = settings_of(self.rows)
        with with_settings(
            self.rows, {key: value for key, value in _NEEDED.items() if settings.get(key, value) != value}
        ):
            yield self

    def has_extension(self) -> bool:
        """Return whether the session has the extension, which allows each partition to have its own bucket spec."""
        return bool(self.rows("show user functions like 'bucket_specs'"))

    def extension_description(self) -> str:
        """Return the extension's description with its version, or an empty string without the extension.

        If the jar was built for another Spark version, the extension defines only a function that describes the jar.
        """
        functions = self.rows(f"show user functions like 'bucket_specs|{NOT_LOADED}'")
        names = [name for row in functions for name in row.values()]
        rows = [row for name in names for row in self.rows(f"describe function {name}")]
        return "\n".join(str(value) for row in rows for value in row.values())

    def require_extension(self, table: str) -> None:
        """Raise an error if the session does not have the extension."""
        if self.has_extension():
            return
        loaded = settings_of(self.rows).get("spark.sql.extensions") or "(nothing)"
        built = BUILT.search(self.extension_description())
        if built:
            loaded += f", with a jar of {built[0]}, but the session runs another version of Spark"
        raise SparkError(
            f"The session lacks the extension, which is required to read the bucket specs of `{table}`.",
            found=f"spark.sql.extensions={loaded}",
            expected="the session extension",
            instead="add the output of `spark-bucketing extension conf --format profiles` to the "
            "`server_side_parameters` of the target, or to the server's configuration",
        )
