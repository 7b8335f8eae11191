"""Facts of the tables that a plan reads, asked of the metastore once for each table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_bucketing.check.offline import OfflinePlanner
from spark_bucketing.check.planner import Planner, read_setting
from spark_bucketing.eligibility.model import TableFacts
from spark_bucketing.errors import SparkError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.metadata import in_lower_case, partition_of
from spark_bucketing.evolution.model import Column, Table
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.layout.names import bucket_of
from spark_bucketing.project.manifest import relation_parts
from spark_bucketing.spec import BucketSpec, Description

_BYTES = re.compile(r"(\d+) bytes")


class Facts:
    """What is known of tables, remembered from query to query.

    Args:
        planner: what is asked.
        unsized: tables whose size in the metastore is made up; no size is reported for them.
    """

    def __init__(self, planner: Planner, unsized: Iterable[str] = ()) -> None:
        self._planner = planner
        self._known: dict[str, TableFacts | None] = {}
        self.unsized = set(unsized)

    def of(self, tables: Iterable[str]) -> dict[str, TableFacts]:
        """Facts by name; a table that cannot be described is left out."""
        found = {}
        for name in tables:
            if name not in self._known:
                self._known[name] = self._ask(name)
            facts = self._known[name]
            if facts is not None:
                found[name] = facts
        return found

    def known(self) -> tuple[TableFacts, ...]:
        """All tables that were asked for and are there."""
        return tuple(facts for facts in self._known.values() if facts)

    def _ask(self, name: str) -> TableFacts | None:
        quoted = _quoted(name)
        try:
            rows = self._planner.rows(f"describe table extended {quoted}")
        except SparkError:
            return None
        facts = described(name, rows)
        sized = name.lower() not in self.unsized
        return TableFacts(
            name=name,
            columns=facts.columns,
            spec=facts.spec,
            partition_columns=facts.partition_columns,
            size_bytes=self._size(quoted, facts) if sized else None,
            files_per_bucket=self._files_per_bucket(quoted, facts) if facts.spec else None,
            file_format=facts.file_format,
        )

    def _size(self, quoted: str, facts: TableFacts) -> int | None:
        # Files of bucketed tables are listed in any case; those of others may be very many.
        if facts.size_bytes is not None or not facts.spec:
            return facts.size_bytes
        try:
            return self._planner.size_of(quoted)
        except SparkError:
            return None

    def with_partitions(self, facts: TableFacts) -> TableFacts:
        """The same with the specs of its partitions, where the session can tell them; it lists their files for that."""
        if facts.partitions is not None or not facts.partition_columns:
            return facts
        try:
            found = self._planner.rows(sql.bucket_specs(_quoted(facts.name)))
        except SparkError:
            return facts
        columns = tuple(Column(name, facts.columns.get(name, "string")) for name in facts.partition_columns)
        rows = (dict(zip(sql.SPEC_COLUMNS, row, strict=True)) for row in found)
        partitions = Table(facts.name, in_lower_case(facts.spec), columns, tuple(map(partition_of, rows)))
        self._known[facts.name] = replace(facts, partitions=partitions)
        return replace(facts, partitions=partitions)

    def _files_per_bucket(self, quoted: str, facts: TableFacts) -> int | None:
        try:
            paths = self._planner.data_files(quoted)
        except SparkError:
            return None
        return files_per_bucket(paths, facts) if paths is not None else None


def _quoted(name: str) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in relation_parts(name) or name.split("."))


class OfflineFacts(Facts):
    """Facts of hypothetical tables.

    Args:
        planner: of these tables.
    """

    def __init__(self, planner: OfflinePlanner) -> None:
        super().__init__(planner)
        self._whatif = planner.whatif

    def _ask(self, name: str) -> TableFacts | None:
        table = self._whatif.table(name)
        if table is None:
            return None
        columns = {column.lower(): kind for column, kind in table.columns.items()}
        size = None if name.lower() in self.unsized else table.size_bytes
        return TableFacts(name, columns, table.spec, table.partition_columns, size, 1, None, table.format)


def details_of(rows: Sequence[tuple[Any, ...]]) -> Mapping[str, str]:
    """The detailed information of DESCRIBE TABLE EXTENDED, by name."""
    return _description(rows).details


def described(name: str, rows: Sequence[tuple[Any, ...]]) -> TableFacts:
    """Read the rows of DESCRIBE TABLE EXTENDED.

    Args:
        name: the table's.
        rows: col_name, data_type and comment.
    """
    found = _description(rows)
    size = _BYTES.search(found.details.get("Statistics", ""))
    return TableFacts(
        name=name,
        columns={column.lower(): kind for column, kind in found.columns.items()},
        spec=BucketSpec.from_description(found.details),
        partition_columns=tuple(map(str.lower, found.partition_columns)),
        size_bytes=int(size[1]) if size else None,
        file_format=_format(found.details),
    )


def _description(rows: Sequence[tuple[Any, ...]]) -> Description:
    return Description.of((row[0], row[1]) for row in rows)


def _format(details: Mapping[str, str]) -> str:
    provider = details.get("Provider", "").lower()
    # Hive's are told by the class that reads them.
    hives = "orc" if "orc" in details.get("InputFormat", "").lower() else "parquet"
    return hives if provider in ("", "hive") else provider


def files_per_bucket(paths: Iterable[str], facts: TableFacts) -> int | None:
    """Most files that a bucket of one partition has.

    Returns:
        The number, 1 for a table without files, or None when a file's name has no bucket id.
    """
    if facts.spec is None:
        return None
    numbers: Counter[tuple[str, int]] = Counter()
    for path in paths:
        folder, _, name = path.rpartition("/")
        bucket = bucket_of(name, facts.spec.bucket_hash)
        if bucket is None:
            return None
        # Without partitions, all files are one partition's, wherever they are.
        numbers[folder if facts.partition_columns else "", bucket] += 1
    return max(numbers.values(), default=1)


def settings_of(planner: Planner, names: Iterable[str]) -> Mapping[str, str]:
    """Values of Spark settings in the planner's session; those that are not set and have no default are left out."""
    values = ((name, read_setting(planner, name)) for name in names)
    return {name: value for name, value in values if value is not None}


def honest_settings(planner: Planner, settings: Mapping[str, str]) -> Mapping[str, str]:
    """The settings without a session extension that they name and that the session does not have.

    Where Spark cannot load an extension, since its jar is missing, it warns in its log and starts without it.

    Args:
        planner: what answers.
        settings: from settings_of().
    """
    named = settings.get("spark.sql.extensions", "")
    if EXTENSION_CLASS not in named or planner.rows("show functions like 'hive_bucket'"):
        return settings
    others = [name for name in named.split(",") if name.strip() != EXTENSION_CLASS]
    return {**settings, "spark.sql.extensions": ",".join(others)}
