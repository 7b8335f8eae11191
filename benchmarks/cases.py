"""What the benchmark runs: queries, and the ways of running them that are compared."""

from __future__ import annotations

from dataclasses import dataclass

JOIN = "join {orders} on l_orderkey = o_orderkey"

# {name} stands for the table of that name in the layout that is measured.
QUERIES: dict[str, str] = {
    "join": f"select count(*), sum(l_extendedprice), max(o_orderdate) from {{lineitem}} {JOIN}",
    "join, group by a superset of the key": (
        "select count(*), sum(total) from (select o_orderkey, o_orderdate, sum(l_extendedprice) as total"
        f" from {{lineitem}} {JOIN} group by o_orderkey, o_orderdate)"
    ),
    "one-to-many: 64 buckets against 16": (
        f"select count(*), sum(l_extendedprice), max(o_orderdate) from {{lineitem_fine}} {JOIN}"
    ),
    "union of two tables, joined": (
        "select count(*), sum(l_extendedprice), max(o_orderdate)"
        f" from (select * from {{lineitem_old}} union all select * from {{lineitem_new}}) {JOIN}"
    ),
    "seven partitions, joined": (
        f"select count(*), sum(l_extendedprice), max(o_orderdate) from {{lineitem_years}} {JOIN}"
    ),
}

ORDERS = "(select count(o_orderkey), max(o_orderdate) from {orders})"
LINEITEM = "(select count(l_orderkey), sum(l_extendedprice) from {%s})"
# What a query cannot be faster than: its inputs' columns are read and added up, and nothing is joined.
SCANS: dict[str, str] = {
    "join": f"select * from {LINEITEM % 'lineitem'} cross join {ORDERS}",
    "join, group by a superset of the key": f"select * from {LINEITEM % 'lineitem'} cross join {ORDERS}",
    "one-to-many: 64 buckets against 16": f"select * from {LINEITEM % 'lineitem_fine'} cross join {ORDERS}",
    "union of two tables, joined": (
        f"select * from {LINEITEM % 'lineitem_old'} cross join {LINEITEM % 'lineitem_new'} cross join {ORDERS}"
    ),
    "seven partitions, joined": f"select * from {LINEITEM % 'lineitem_years'} cross join {ORDERS}",
}


@dataclass(frozen=True)
class Way:
    """One way of running the queries: the layout of their tables, settings, or only scans of their inputs."""

    name: str
    layout: str
    settings: dict[str, str]
    scan: bool = False


OFF = {"spark.bucketing.enabled": "false"}
ON = {"spark.bucketing.enabled": "true"}
WAYS = (
    Way("plain tables", "plain", OFF),
    Way("Spark layout, stock", "spark", OFF),
    Way("Spark layout, extension", "spark", ON),
    Way("Hive layout, stock", "hive", OFF),
    Way("Hive layout, extension", "hive", ON),
    Way("Hive layout, only scanned", "hive", OFF, scan=True),
)
BASELINE = WAYS[0]
SCANNED = WAYS[-1].name
