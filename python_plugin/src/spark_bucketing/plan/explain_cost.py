"""Parse the output of EXPLAIN COST: table sizes, the bytes that a query reads, and the directories that it selects.

EXPLAIN FORMATTED also shows the partition filters, but it does not quote their values, so they cannot be parsed. Only
Spark can determine which partitions these filters select.
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
# For a table of unknown size, Spark assumes 8 EiB (spark.sql.defaultSizeInBytes). This size and all larger sizes mean
# that the size is unknown.
NO_SIZE = 1024**6
# Operators between a scan and the first join or union. Spark's size above a join is only a product of sizes.
_OF_ONE_SCAN = ("Project", "Filter")

# FileScan parquet spark_catalog.d.t[k#1] ..., Location: InMemoryFileIndex(2 paths)[file:/d.db/t/ds=1,
# file:/d.db/t/ds=2], PartitionFilters: [(ds#2 > 0)], PushedFilters: [], ...
_FILE_SCAN = re.compile(
    r"FileScan \w+ (?P<table>[^\[]+)\[.*, Location: InMemoryFileIndex\((?P<number>\d+) paths\)\[(?P<paths>.*?)\], "
    r"PartitionFilters: (?P<filters>\[.*\]), PushedFilters: "
)
# Separates two paths; parts of a path contain no colon.
_NEXT = re.compile(r", (?=[A-Za-z][A-Za-z0-9+.-]*:/)")

ScanKey = tuple[str, str]
"""The table and the filters of a scan, without expression ids. Scans with equal keys read the same partitions."""

Folders = Mapping[ScanKey, frozenset[str]]


@dataclass(frozen=True)
class Statistics:
    """Spark's size estimates in bytes, and the directories that the query reads."""

    tables: Mapping[str, int] = field(default_factory=dict)  # size of each table, by schema and name
    # By the id of any column of a scan: the size of the rows and columns that reach the first operator above the scan.
    reads: Mapping[int, int] = field(default_factory=dict)
    folders: Folders = field(default_factory=dict)  # directories of the partitions that scans select


def parse_statistics(text: str) -> Statistics:
    """Parse how many bytes Spark expects to read; the result is empty if Spark prints no sizes."""
    tables: dict[str, int] = {}
    reads: dict[int, int] = {}
    above: list[tuple[int, str, int]] = []
    for depth, operator, line in _operators(text.partition("== Physical Plan ==")[0]):
        above = [entry for entry in above if entry[0] < depth]
        size = _bytes(line)
        relation = _RELATION.match(line) if operator == "Relation" else None
        if relation and size is not None and size < NO_SIZE:
            name = relation["table"].removeprefix(SESSION_CATALOG)
            # Several scans may read different partitions of one table.
            tables[name] = max(size, tables.get(name, 0))
            reads |= dict.fromkeys(map(int, _IDS.findall(relation["columns"])), _read(size, above))
        above.append((depth, operator, size if size is not None else -1))
    return Statistics(tables, reads, parse_folders(text))


def _operators(text: str) -> Iterator[tuple[int, str, str]]:
    for line in text.splitlines():
        if found := _LINE.match(line):
            yield len(found["indent"]), found["operator"], line[found.start("operator") :]


def _read(size: int, above: list[tuple[int, str, int]]) -> int:
    """Return the smallest size that Spark prints for a scan and for the projections and filters directly above it."""
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
    """Return the key under which the directories of a scan are stored."""
    return scan.table or "", _ID.sub("", scan.details.get("PartitionFilters", "[]"))


def parse_folders(text: str) -> Folders:
    """Return the directories of each scan whose partitions Spark selected during planning."""
    found: dict[ScanKey, frozenset[str]] = defaultdict(frozenset)
    for line in text.partition("== Physical Plan ==")[2].splitlines():
        scan = _FILE_SCAN.search(line)
        paths = _NEXT.split(scan["paths"]) if scan and scan["paths"] else []
        # Ignore truncated lists.
        if scan and len(paths) == int(scan["number"]):
            found[scan["table"].removeprefix(SESSION_CATALOG), _ID.sub("", scan["filters"])] |= frozenset(paths)
    return dict(found)
