"""Reads the text of EXPLAIN COST: sizes of tables, what a query reads of them, and the folders that Spark selected.

EXPLAIN FORMATTED has the filters that select partitions as well, in a text that cannot be read back: values stand there
without quotes. What they select is for Spark to find out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from spark_bucketing.plan.tree import SESSION_CATALOG, PlanNode

# A relation prints as `Relation spark_catalog.d.t[k#1,v#2L] parquet, Statistics(sizeInBytes=1.5 MiB, rowCount=3)`.
_RELATION = re.compile(r"Relation (?P<table>\S+?)\[(?P<columns>[^\n]*?)\] \w+")
_LINE = re.compile(r"^(?P<indent>[ :]*)(?:[+:]- )?(?P<operator>\w+)(?P<rest>.*)$")
_SIZE = re.compile(r", Statistics\(sizeInBytes=(?P<size>[\d.,E+]+) (?P<unit>[KMGTPE]i)?B[^()]*\)$")
_ID = re.compile(r"#\d+L?")
_IDS = re.compile(r"#(\d+)L?(?:,|$)")
_UNITS = {unit: 1024**power for power, unit in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}
# No table is so large, but one whose size is not known: for Spark it is 8 EiB (spark.sql.defaultSizeInBytes).
NO_SIZE = 1024**6
# What lies on a scan before rows of others come in: a size above joins is a product, which means nothing.
_OF_ONE_SCAN = ("Project", "Filter")

# FileScan parquet spark_catalog.d.t[k#1] ..., Location: InMemoryFileIndex(2 paths)[file:/d.db/t/ds=1,
# file:/d.db/t/ds=2], PartitionFilters: [(ds#2 > 0)], PushedFilters: [], ...
_FILE_SCAN = re.compile(
    r"FileScan \w+ (?P<table>[^\[]+)\[.*, Location: InMemoryFileIndex\((?P<number>\d+) paths\)\[(?P<paths>.*?)\], "
    r"PartitionFilters: (?P<filters>\[.*\]), PushedFilters: "
)
# Between two paths, in whose parts there is no colon.
_NEXT = re.compile(r", (?=[A-Za-z][A-Za-z0-9+.-]*:/)")

ScanKey = tuple[str, str]
"""Table and filters, without what Spark counts anew each time: the same filters select the same partitions."""

Folders = Mapping[ScanKey, frozenset[str]]


@dataclass(frozen=True)
class Statistics:
    """Sizes that Spark expects, in bytes, and the folders that it reads."""

    tables: Mapping[str, int] = field(default_factory=dict)  # of tables, by schema and name
    # Of the columns and rows that reach the first operator above a scan, by the id of any column of the scan, with
    # the table's name.
    reads: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    folders: Folders = field(default_factory=dict)  # of the partitions that scans select


def parse_statistics(text: str) -> Statistics:
    """What Spark expects to read; empty where it prints none."""
    tables: dict[str, int] = {}
    reads: dict[int, tuple[str, int]] = {}
    above: list[tuple[int, str, int]] = []
    for depth, operator, line in _operators(text.partition("== Physical Plan ==")[0]):
        above = [entry for entry in above if entry[0] < depth]
        size = _bytes(line)
        relation = _RELATION.match(line) if operator == "Relation" else None
        if relation and size is not None and size < NO_SIZE:
            name = relation["table"].removeprefix(SESSION_CATALOG)
            # A table may be read several times, of some partitions only.
            tables[name] = max(size, tables.get(name, 0))
            read = _read(size, above)
            reads |= {int(column): (name, read) for column in _IDS.findall(relation["columns"])}
        above.append((depth, operator, size if size is not None else -1))
    return Statistics(tables, reads, parse_folders(text))


def _operators(text: str) -> Iterator[tuple[int, str, str]]:
    for line in text.splitlines():
        if found := _LINE.match(line):
            yield len(found["indent"]), found["operator"], line[found.start("operator") :]


def _read(size: int, above: list[tuple[int, str, int]]) -> int:
    """The size at the uppermost projection or filter right above a scan."""
    for _, operator, there in reversed(above):
        if operator not in _OF_ONE_SCAN or there < 0:
            return size
        size = min(size, there)
    return size


def _bytes(line: str) -> int | None:
    found = _SIZE.search(line)
    if found is None:
        return None
    return int(float(found["size"].replace(",", "")) * _UNITS[found["unit"] or ""])


def scan_key(scan: PlanNode) -> ScanKey:
    """By which a scan's folders are found."""
    return scan.table or "", _ID.sub("", scan.details.get("PartitionFilters", "[]"))


def parse_folders(text: str) -> Folders:
    """The folders of each scan of which Spark selected partitions before it planned it; none of others."""
    found: dict[ScanKey, frozenset[str]] = defaultdict(frozenset)
    for line in text.partition("== Physical Plan ==")[2].splitlines():
        scan = _FILE_SCAN.search(line)
        paths = _NEXT.split(scan["paths"]) if scan and scan["paths"] else []
        # Lists that are too long are cut off.
        if scan and len(paths) == int(scan["number"]):
            found[scan["table"].removeprefix(SESSION_CATALOG), _ID.sub("", scan["filters"])] |= frozenset(paths)
    return dict(found)
