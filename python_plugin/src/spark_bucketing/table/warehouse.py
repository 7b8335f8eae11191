"""A table's warehouse, in the only language that every connection speaks: SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from spark_bucketing.errors import SparkError

# Under which nothing that is read is left out, and buckets are written; all are defaults of Spark or the extension.
_NEEDED: Mapping[str, str] = {
    "spark.bucketing.enabled": "true",
    "spark.bucketing.write.distribute": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.hive.convertMetastoreParquet": "true",
    "spark.sql.hive.convertMetastoreOrc": "true",
    "spark.sql.hive.convertInsertingPartitionedTable": "true",
    "spark.sql.hive.manageFilesourcePartitions": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.legacy.parseNullPartitionSpecAsStringLiteral": "false",
}


class Warehouse:
    """What is asked of Spark, and changed by it.

    Args:
        run: gives the rows of a statement by the names of their columns, in a session or over a connection.
    """

    def __init__(self, run: Callable[[str], list[dict[str, Any]]]) -> None:
        self._run = run

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Rows of a query, or of a statement that changes nothing."""
        return self._run(query)

    def change(self, statement: str) -> None:
        """Run a statement that changes something."""
        self._run(statement)

    def settings(self) -> dict[str, str]:
        """Settings of the session that have a value of their own, not their default."""
        return {str(row["key"]): str(row["value"]) for row in self.rows("set")}

    @contextmanager
    def with_needed_settings(self) -> Iterator[Warehouse]:
        """Inside the block nothing is left out of what is read, and buckets are written; the settings come back."""
        changed = {key for key, value in self.settings().items() if key in _NEEDED and value != _NEEDED[key]}
        with self.with_settings({key: _NEEDED[key] for key in changed}):
            yield self

    @contextmanager
    def with_settings(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Inside the block the session has these settings; afterwards its own ones come back."""
        before = self.settings() if settings else {}
        try:
            for key, value in settings.items():
                self.change(f"set {key} = {value}")
            yield
        finally:
            for key in settings:
                self.change(f"set {key} = {before[key]}" if key in before else f"reset {key}")

    def has_extension(self) -> bool:
        """Whether the session has the extension, which alone knows buckets of partitions."""
        return bool(self.rows("show user functions like 'bucket_specs'"))

    def extension_description(self) -> str:
        """What DESCRIBE FUNCTION says of the extension, its class and its version among it; empty without one."""
        rows = self.rows("describe function bucket_specs") if self.has_extension() else []
        return "\n".join(str(value) for row in rows for value in row.values())

    def require_extension(self, table: str) -> None:
        """Refuse a session without the extension.

        Raises:
            SparkError: the session lacks it.
        """
        if self.has_extension():
            return
        loaded = self.settings().get("spark.sql.extensions") or "(nothing)"
        raise SparkError(
            f"The session lacks the extension, which alone knows the buckets of {table}: found "
            f"spark.sql.extensions={loaded}. Add what `spark-bucketing "
            "extension conf --format profiles` prints to the server_side_parameters of the target, or to the "
            "configuration of its server."
        )
