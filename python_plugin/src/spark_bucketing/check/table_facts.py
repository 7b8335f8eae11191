"""Read the metadata of a plan's tables from the metastore, once per table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from spark_bucketing.check.scans import TableFacts
from spark_bucketing.errors import SparkError
from spark_bucketing.plan.planner import Planner
from spark_bucketing.plan.whatif import WhatIf
from spark_bucketing.spec import BucketSpec, Description
from spark_bucketing.table import sql
from spark_bucketing.table.bucketed_files import bucket_of
from spark_bucketing.table.metadata import in_lower_case, partition_of
from spark_bucketing.table.model import Column, Table

Answer = TypeVar("Answer")
_BYTES = re.compile(r"(\d+) bytes")


class Facts:
    """The facts about tables, cached across queries."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._known: dict[str, TableFacts | None] = {}

    def of(self, tables: Sequence[str]) -> dict[str, TableFacts]:
        """Return the facts by table name, without tables that Spark cannot describe."""
        for name in tables:
            if name not in self._known:
                self._known[name] = self._ask(name)
        return {name: facts for name in tables if (facts := self._known[name])}

    def known(self) -> tuple[TableFacts, ...]:
        """Return the facts about all tables that were described so far."""
        return tuple(facts for facts in self._known.values() if facts)

    def _ask(self, name: str) -> TableFacts | None:
        quoted = sql.table(name)
        rows = _answer(self._planner.rows, f"describe table extended {quoted}")
        facts = described(name, rows) if rows is not None else None
        if facts is None or facts.spec is None:
            return facts
        # Spark lists the files of a bucketed table anyway. Other tables may have very many files.
        files = _answer(self._planner.data_files, quoted)
        size = facts.size_bytes if facts.size_bytes is not None else _answer(self._planner.size_of, quoted)
        is_empty = files is not None and not files
        return replace(facts, size_bytes=size, files_per_bucket=files_per_bucket(files or (), facts), is_empty=is_empty)

    def with_partitions(self, facts: TableFacts) -> TableFacts:
        """Add the bucket specs of the partitions, if the session can return them.

        Spark lists the partitions' files for this.
        """
        if facts.partitions is not None or not facts.partition_columns:
            return facts
        found = _answer(self._planner.rows, sql.bucket_specs(facts.name))
        if found is None:
            return facts
        columns = tuple(Column(name, facts.columns.get(name, "string")) for name in facts.partition_columns)
        rows = (dict(zip(sql.SPEC_COLUMNS, row, strict=True)) for row in found)
        partitions = Table(facts.name, in_lower_case(facts.spec), columns, tuple(map(partition_of, rows)))
        self._known[facts.name] = replace(facts, partitions=partitions)
        return replace(facts, partitions=partitions)


def _answer(ask: Callable[[str], Answer | None], question: str) -> Answer | None:
    """Return the result of a call to the planner, or None if Spark rejects it."""
    try:
        return ask(question)
    except SparkError:
        return None


class OfflineFacts(Facts):
    """The facts about hypothetical tables."""

    def __init__(self, whatif: WhatIf) -> None:
        super().__init__(whatif)
        self._whatif = whatif

    def _ask(self, name: str) -> TableFacts | None:
        table = self._whatif.table(name)
        if table is None:
            return None
        columns = {column.lower(): kind for column, kind in table.columns.items()}
        return TableFacts(**vars(replace(table, name=name, columns=columns)))


def described(name: str, rows: Sequence[tuple[Any, ...]]) -> TableFacts:
    """Parse the rows of DESCRIBE TABLE EXTENDED."""
    found = Description.of(rows)
    size = _BYTES.search(found.details.get("Statistics", ""))
    return TableFacts(
        name=name,
        columns={column.lower(): kind for column, kind in found.columns.items()},
        spec=BucketSpec.from_description(found.details),
        partition_columns=tuple(map(str.lower, found.partition_columns)),
        size_bytes=int(size[1]) if size else None,
        file_format=found.file_format or "parquet",
    )


def files_per_bucket(paths: Iterable[str], facts: TableFacts) -> int:
    """Return the largest number of files that one bucket has in any partition.

    Return 1 if there are no files, or if a file name has no bucket id.
    """
    if facts.spec is None:
        return 1
    numbers: Counter[tuple[str, int]] = Counter()
    for path in paths:
        folder, _, name = path.rpartition("/")
        bucket = bucket_of(name, facts.spec.bucket_hash)
        if bucket is None:
            return 1
        # All files of an unpartitioned table count as one partition, regardless of their directory.
        numbers[folder if facts.partition_columns else "", bucket] += 1
    return max(numbers.values(), default=1)
