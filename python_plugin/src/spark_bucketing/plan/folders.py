"""Reads the folders of scans out of the text of EXPLAIN COST: those of the partitions that Spark selected.

EXPLAIN FORMATTED has the filters that select partitions as well, in a text that cannot be read back: values stand there
without quotes. What they select is Spark's to say.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from spark_bucketing.plan.tree import SESSION_CATALOG, Node

# FileScan parquet spark_catalog.d.t[k#1] ..., Location: InMemoryFileIndex(2 paths)[file:/d.db/t/ds=1,
# file:/d.db/t/ds=2], PartitionFilters: [(ds#2 > 0)], PushedFilters: [], ...
_SCAN = re.compile(
    r"FileScan \w+ (?P<table>[^\[]+)\[.*, Location: InMemoryFileIndex\((?P<number>\d+) paths\)\[(?P<paths>.*?)\], "
    r"PartitionFilters: (?P<filters>\[.*\]), PushedFilters: "
)
# Between two paths, in whose parts there is no colon.
_NEXT = re.compile(r", (?=[A-Za-z][A-Za-z0-9+.-]*:/)")
_ID = re.compile(r"#\d+L?")

ScanKey = tuple[str, str]
"""Table and filters, without what Spark counts anew each time: the same filters select the same partitions."""

Folders = Mapping[ScanKey, frozenset[str]]


def scan_key(scan: Node) -> ScanKey:
    """What tells a scan's folders."""
    return scan.table or "", _ID.sub("", scan.details.get("PartitionFilters", "[]"))


def parse_folders(text: str) -> Folders:
    """The folders of each scan of which Spark selected partitions before it planned it; none of others.

    Args:
        text: the answer of EXPLAIN COST.
    """
    found: dict[ScanKey, frozenset[str]] = defaultdict(frozenset)
    for line in text.partition("== Physical Plan ==")[2].splitlines():
        scan = _SCAN.search(line)
        paths = _NEXT.split(scan["paths"]) if scan and scan["paths"] else []
        # Lists that are too long are cut off.
        if scan and len(paths) == int(scan["number"]):
            found[scan["table"].removeprefix(SESSION_CATALOG), _ID.sub("", scan["filters"])] |= frozenset(paths)
    return dict(found)
