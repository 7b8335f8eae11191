"""Define the queries of the join benchmark, and the variants that it compares."""

from __future__ import annotations

from dataclasses import dataclass

JOIN = "join {orders} on l_orderkey = o_orderkey"
SUMS = "select count(*), sum(l_extendedprice), max(o_orderdate)"

# {name} stands for the table with that name in the tested layout.
QUERIES: dict[str, str] = {
    "join": f"{SUMS} from {{lineitem}} {JOIN}",
    "join, group by the key": (
        "select count(*), sum(total) from (select o_orderkey, sum(l_extendedprice) as total"
        f" from {{lineitem}} {JOIN} group by o_orderkey)"
    ),
    "join, group by a superset of the key": (
        "select count(*), sum(total) from (select o_orderkey, o_orderdate, sum(l_extendedprice) as total"
        f" from {{lineitem}} {JOIN} group by o_orderkey, o_orderdate)"
    ),
    "one-to-many: 64 buckets against 16": f"{SUMS} from {{lineitem_fine}} {JOIN}",
    "union of two tables, joined": (
        f"{SUMS} from (select * from {{lineitem_old}} union all select * from {{lineitem_new}}) {JOIN}"
    ),
    "seven partitions, joined": f"{SUMS} from {{lineitem_years}} {JOIN}",
}


def _scan_query(*lineitems: str) -> str:
    """Return a query that scans and sums the same columns of orders and of these lineitem tables, without a join."""
    sums = [f"(select count(l_orderkey), sum(l_extendedprice) from {{{name}}})" for name in lineitems]
    orders = "(select count(o_orderkey), max(o_orderdate) from {orders})"
    return f"select * from {' cross join '.join([*sums, orders])}"


# Lower bounds: the time to scan the inputs of each query.
SCANS: dict[str, str] = {
    "join": _scan_query("lineitem"),
    "join, group by the key": _scan_query("lineitem"),
    "join, group by a superset of the key": _scan_query("lineitem"),
    "one-to-many: 64 buckets against 16": _scan_query("lineitem_fine"),
    "union of two tables, joined": _scan_query("lineitem_old", "lineitem_new"),
    "seven partitions, joined": _scan_query("lineitem_years"),
}


@dataclass(frozen=True)
class Variant:
    """A variant of the benchmark: the layout of the tables, with or without the extension, or a scan of the inputs."""

    name: str
    layout: str
    extension: bool = False
    scan: bool = False


VARIANTS = (
    Variant("unbucketed tables", "plain"),
    Variant("Spark layout, stock", "spark"),
    Variant("Spark layout, extension", "spark", extension=True),
    Variant("Hive layout, stock", "hive"),
    Variant("Hive layout, extension", "hive", extension=True),
    Variant("Hive layout, scan only", "hive", scan=True),
)
BASELINE = VARIANTS[0]
SCANNED = VARIANTS[-1].name
