"""Access a warehouse only through SQL, which works over any connection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from spark_bucketing.errors import SparkError

# The function that the extension defines instead of its own functions if its jar was built for another Spark version.
NOT_LOADED = "spark_bucketing_not_loaded"
# The versions in the descriptions of the extension's functions; the dbt package searches for the same text.
BUILT = re.compile(r"spark-bucketing ([^ ,]+), for Spark ([^ )]+)")
# With these settings, Spark reads all rows and writes buckets. Each value is a default of Spark or the extension.
_NEEDED: Mapping[str, str] = {
    "spark.bucketing.enabled": "true",
    "spark.bucketing.write.distribute": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.hive.convertMetastoreParquet": "true",
    "spark.sql.hive.convertMetastoreOrc": "true",
    "spark.sql.hive.convertInsertingPartitionedTable": "true",
    "spark.sql.hive.convertInsertingUnpartitionedTable": "true",
    "spark.sql.hive.manageFilesourcePartitions": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.legacy.parseNullPartitionSpecAsStringLiteral": "false",
}


@dataclass(frozen=True)
class Warehouse:
    """Runs SQL statements in a session or over a connection."""

    # Runs a statement, and returns its rows as dictionaries by column name.
    rows: Callable[[str], list[dict[str, Any]]]

    def change(self, statement: str) -> None:
        """Run a statement that changes data, metadata or settings."""
        self.rows(statement)

    def settings(self) -> dict[str, str]:
        """Return the settings that are set explicitly in the session."""
        return {str(row["key"]): str(row["value"]) for row in self.rows("set")}

    @contextmanager
    def with_needed_settings(self) -> Iterator[Warehouse]:
        """Ensure that Spark reads all rows and writes buckets inside the block, and restore the settings afterwards."""
        changed = {key for key, value in self.settings().items() if key in _NEEDED and value != _NEEDED[key]}
        with self.with_settings({key: _NEEDED[key] for key in changed}):
            yield self

    @contextmanager
    def with_settings(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Apply settings inside the block, and restore the previous values afterwards."""
        before = self.settings() if settings else {}
        try:
            for key, value in settings.items():
                self.change(f"set {key} = {value}")
            yield
        finally:
            for key in settings:
                self.change(f"set {key} = {before[key]}" if key in before else f"reset {key}")

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
        loaded = self.settings().get("spark.sql.extensions") or "(nothing)"
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
